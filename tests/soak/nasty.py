"""Requests that nobody should send: a grammar of JSON bodies, of bytes and of headers, from a seeded generator."""

import json
from random import Random
from typing import Any, NamedTuple

from tests.conftest import MODEL

HELLO = [{"role": "user", "content": "Hi"}]
BASES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": MODEL, "messages": HELLO, "max_tokens": 2},
    "/v1/completions": {"model": MODEL, "prompt": "Hi", "max_tokens": 2},
    "/v1/responses": {"model": MODEL, "input": "Hi", "max_output_tokens": 2},
    "/v1/messages": {"model": MODEL, "messages": HELLO, "max_tokens": 2},
    "/v1/messages/count_tokens": {"model": MODEL, "messages": HELLO},
    "/v1/chat/completions/batch": {"model": MODEL, "messages": [HELLO], "max_tokens": 2},
    "/invocations": {"model": MODEL, "prompt": "Hi", "max_tokens": 2},
    "/tokenize": {"model": MODEL, "prompt": "Hi"},
    "/detokenize": {"model": MODEL, "tokens": [1, 2]},
    "/generative_scoring": {"model": MODEL, "query": "Hi", "items": ["a"], "label_token_ids": [1, 2]},
    "/v1/systemone": {"model": MODEL},
    "/foreserve/v1/devices": {"device": "no-such-hardware"},
    "/foreserve/v1/faults": {"fault": "no such fault"},
}
# Fields of any of them; each is tried on each route.
FIELDS = (
    *(
        "model",
        "messages",
        "prompt",
        "max_tokens",
        "max_completion_tokens",
        "min_tokens",
        "n",
        "best_of",
        "seed",
        "stop",
    ),
    *("stop_token_ids", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "user"),
    *(
        "repetition_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "prompt_logprobs",
        "allowed_token_ids",
        "bad_words",
    ),
    *(
        "structured_outputs",
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "stream",
        "stream_options",
    ),
    *("echo", "suffix", "priority", "request_id", "cache_salt", "vllm_xargs", "kv_transfer_params", "use_beam_search"),
    *("chat_template", "chat_template_kwargs", "documents", "add_generation_prompt", "continue_final_message", "input"),
    *("truncate_prompt_tokens", "include_stop_str_in_output", "return_token_ids", "repetition_detection", "metadata"),
    *("slo", "ttft_ms", "tpot_ms", "topic", "instructions", "previous_response_id", "reasoning", "text", "system"),
    *("prompt_embeds", "ignore_eos", "skip_special_tokens", "stream_interval", "length_penalty", "mm_processor_kwargs"),
    *("tokens", "query", "items", "label_token_ids", "add_special_tokens", "return_tokens_as_token_ids", "session_id"),
    *(
        "data_parallel_rank",
        "background",
        "store",
        "include",
        "thinking",
        "truncation_side",
        "extra_args",
        "logit_processors",
    ),
)
GRAMMARS = ("json", "regex", "choice", "grammar", "structural_tag", "json_object", "whitespace_pattern")
SCHEMAS: tuple[Any, ...] = (
    {"$ref": "#"},
    {"type": "nothing"},
    {"enum": []},
    {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
    {"type": "string", "pattern": "(" * 20},
    {"type": "array", "items": {"type": "array", "items": {}}, "minItems": 10**9},
    {"type": "integer", "minimum": 10**30, "maximum": -(10**30)},
    {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    {"type": "string", "minLength": 10**6},
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        65,
        10**6,
        2**31,
        2**63,
        2**64,
        10**30,
        -(10**30),
        0.5,
        -0.5,
        1e-300,
        1e300,
        1e-5,
    ),
    *(
        "",
        "a",
        "none",
        "auto",
        "required",
        "json_object",
        "\0",
        "\ud800",
        "💥",
        "{{ x }}",
        "../../etc",
        "a" * 5000,
        "1e999",
    ),
    *([], [None], [[]], [""], ["a"], [1], [-1], [10**9], [10**30], ["\ud800"], [[1], ["a"]], [{}], [1.5], ["a"] * 200),
    *({}, {"": None}, {"a": {}}, {"type": "json_object"}, {"type": "json_schema"}, {"type": 5}, {"1": 100}, {"-1": 1}),
    *({"99999999": 1}, {"x": "y"}, {"regex": "("}, {"regex": "(a|b)*" * 50}, {"choice": []}, {"choice": ["a", 1]}),
    *(
        {"grammar": 'root ::= root "a"'},
        {"grammar": "x ::="},
        {"json_object": "yes"},
        {"json": "{"},
        {"structural_tag": "{}"},
    ),
    *({"foreserve_known_tokens": [1, 2]}, {"slo": "none"}, {"max_pattern_size": 10**9, "min_count": 2}),
    *(
        {"type": "function", "function": {"name": "f"}},
        [{"type": "function", "function": {"name": "f", "parameters": 3}}],
    ),
    *([{"role": "tool", "content": None}], [{"role": "user"}], [{"role": "x" * 300, "content": [{"type": "text"}]}]),
    *([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}],),
    *([{"role": "assistant", "tool_calls": [{"id": 1, "function": {"arguments": "{"}}]}],),
    *({"json": schema} for schema in SCHEMAS),
    *({"type": "json_schema", "json_schema": {"name": "s", "schema": schema}} for schema in SCHEMAS),
    *([{"type": "function", "function": {"name": "f", "parameters": schema}}] for schema in SCHEMAS),
)
HEADERS: tuple[tuple[str, str], ...] = (
    ("x-request-id", "a" * 1000),
    ("x-request-id", "\xff\xfe"),
    ("x-foreserve-slo", "none"),
    ("x-foreserve-nothing", "1"),
    ("x-foreserve-priority", "1e999"),
    ("x-data-parallel-rank", "-1"),
    ("x-session-id", "\x80" * 300),
    ("traceparent", "00-zz-zz-zz"),
    ("content-type", "text/plain"),
    ("content-type", "application/json; charset=utf-16"),
    ("content-encoding", "gzip"),
    ("accept", "\xe9"),
)


class Request(NamedTuple):
    """An HTTP request, by POST."""

    path: str
    body: bytes
    headers: dict[str, bytes]


def request(random: Random) -> Request:
    """The next one."""
    path = random.choice(list(BASES))
    fields = dict(BASES[path])
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        fields[random.choice(FIELDS)] = value(random)
    if random.random() < 0.1:
        kind = random.choice(
            ("json", "regex", "choice", "grammar", "structural_tag", "json_object", "whitespace_pattern")
        )
        fields["structured_outputs"] = {kind: random.choice((*SCHEMAS, *VALUES))}
    body = json.dumps(fields).encode()
    if random.random() < 0.15:
        body = mangled(random, body)
    headers = {"content-type": b"application/json"}
    if random.random() < 0.1:
        name, said = random.choice(HEADERS)
        headers[name] = said.encode("latin-1")
    return Request(path, body, headers)


def value(random: Random) -> Any:
    """One that does not fit, or hardly; now and then within others."""
    chosen = random.choice(VALUES)
    for _ in range(random.choice((0, 0, 0, 0, 0, 1, 2, 60, 200))):
        chosen = [chosen] if random.random() < 0.5 else {"a": chosen}
    return chosen


def mangled(random: Random, body: bytes) -> bytes:
    """Some bytes of it others, gone or repeated."""
    changed = bytearray(body)
    for _ in range(random.randint(1, 8)):
        at = random.randrange(len(changed) + 1)
        what = random.random()
        if what < 0.4 and at < len(changed):
            changed[at] = random.randrange(256)
        elif what < 0.7:
            del changed[at : at + random.randint(1, 10)]
        else:
            changed[at:at] = random.choice((random.randbytes(random.randint(1, 20)), bytes(changed[:50]), b"[" * 2000))
    return bytes(changed)
