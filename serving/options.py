"""What the commands' options have in common."""

import argparse

HELP = {
    "system": "kind of system to emulate, a file in device_model/systems",
    "hardware": "its hardware, a file in device_model/specs/hardware",
    "model": "the model it serves, a file in device_model/specs/models",
    "draft": "draft scheme with which every step speculates, a file in device_model/drafts (none: plain decoding)",
    "acceptance": "rates of accepted drafts: published (the paper's), or measured (on the bundled token model)",
    "residency": "what HB holds of the experts: analytic (as a law expects), or trace (a real cache, real routes)",
    "devices": "emulated devices",
    "speed": "emulated seconds per real second: 1 is real time, 0.1 ten times slower",
    "token_model": "model that makes the text: foreserve-moe or foreserve-tiny, which are bundled, or one in Hugging "
    "Face format, a folder or a repository's name",
    "token_ahead": "tokens that vLLM may be ahead of a device, per request",
    "max_model_len": "longest context in tokens, if the models and the device can hold it",
    "max_num_seqs": "most sequences in a device's batch",
    "max_num_batched_tokens": "most tokens in one step of a device",
    "max_queue": "most unfinished requests before clients are told to come back later",
    "slo_classes": "SLO class that requests may name, as in 'chat: ttft_ms=500, tpot_ms=50, priority=0', of which each "
    "term may be left out; may be given more than once, and replaces the default classes",
    "default_slo": "SLO class of requests that name none (empty: no targets)",
    "early_rejection": "turn a request away (429) if its first token is predicted to come later than its TTFT target",
    "key_requests_per_min": "requests that each API key may make in an emulated minute, all of them at once if it "
    "likes (0: no limit); without API keys, of all clients together",
    "key_tokens_per_min": "the same of tokens: the prompt's and max_tokens, less what is not generated in the end",
    "prefix_caching": "let requests share the KV cache of what their prompts begin with",
    "block_tokens": "tokens in a block of the KV cache, whole ones of which prompts share",
    "host": "address to listen on",
    "http_port": "port of the OpenAI HTTP API and /metrics (0: any free one)",
    "grpc_port": "port of the gRPC API (0: any free one)",
    "api_keys": "key that clients must show; may be given more than once",
}

"""What each key of a scenario says, on the command line too."""

MOST = 1_000_000  # of whatever the command line counts


def positive(text: str) -> int:
    """A whole number from 1 on, from the command line."""
    if not text.isdigit() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a whole number from 1 to {MOST}")
    return int(text)
