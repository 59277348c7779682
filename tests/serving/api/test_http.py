"""OpenAI over HTTP, through the `openai` client: what users know of vLLM's server holds on the emulated devices."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from device_model.load import load_device
from device_model.step import StepPlan
from serving.process.server_process import ServerProcess
from tests.conftest import CONTEXT, MODEL, SECRET
from tests.patience import until

HELLO = [{"role": "user", "content": "Hello!"}]
PLAIN = {"model": MODEL, "prompt": "Hello", "max_tokens": 8, "temperature": 0.0}


def metrics(emulator: ServerProcess) -> dict[str, float]:
    """All samples without `le`, summed over engines and devices, by name and reason."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(httpx.get(f"{emulator.http_url}/metrics", timeout=60).text):
        for sample in family.samples:
            if "le" not in sample.labels:
                name = sample.name + (sample.labels.get("finished_reason") or sample.labels.get("reason", ""))
                totals[name] = totals.get(name, 0.0) + sample.value
    return totals


def settled(emulator: ServerProcess) -> dict[str, float]:
    """The same, once the step in which somebody went away has been told of, too."""
    last = metrics(emulator)
    while True:
        time.sleep(0.3)
        now = metrics(emulator)
        if now.get("vllm:iteration_tokens_total_sum") == last.get("vllm:iteration_tokens_total_sum"):
            return now
        last = now


def idle(emulator: ServerProcess) -> bool:
    """Whether nobody has a place in the queue."""
    now = metrics(emulator)
    return now["vllm:num_requests_running"] + now["vllm:num_requests_waiting"] == 0


def test_chat_answers_with_usage(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=12, extra_body={"ignore_eos": True})
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 12
    assert answer.usage.total_tokens == 12 + answer.usage.prompt_tokens


def test_usage_says_how_much_of_a_prompt_was_cached(client: openai.OpenAI) -> None:
    options = {"model": MODEL, "prompt": "Caches are small and fast. " * 12, "max_tokens": 3}
    first, second = (client.completions.create(**options).usage for _ in range(2))
    assert first.prompt_tokens_details.cached_tokens == 0
    # Whole blocks, and never all of a prompt: its last token brings the first of the answer.
    assert second.prompt_tokens - 16 <= second.prompt_tokens_details.cached_tokens < second.prompt_tokens
    assert second.prompt_tokens_details.cached_tokens % 16 == 0
    *_, last = client.completions.create(**options, stream=True, stream_options={"include_usage": True})
    assert last.usage.prompt_tokens_details.cached_tokens == second.prompt_tokens_details.cached_tokens


def test_a_chats_next_turn_finds_the_answer_before_it(client: openai.OpenAI) -> None:
    asked = {
        "role": "user",
        "content": "Tell me something interesting about the moon, please. A longer answer is fine.",
    }
    options = {"model": MODEL, "temperature": 0, "extra_body": {"ignore_eos": False, "return_token_ids": True}}
    first = client.chat.completions.create(messages=[asked], max_tokens=60, **options)
    said = {"role": "assistant", "content": first.choices[0].message.content}
    second = client.chat.completions.create(messages=[asked, said, asked], max_tokens=2, **options)
    before, now = first.prompt_token_ids + first.choices[0].token_ids, second.prompt_token_ids
    # The answer's text may be of other tokens than those that made it: up to there they are the same.
    alike = next((at for at, (a, b) in enumerate(zip(before[:-1], now, strict=False)) if a != b), len(before) - 1)
    assert alike > first.usage.prompt_tokens + 16
    held = first.usage.prompt_tokens_details
    assert held.cached_tokens + held.created_cache_tokens == first.usage.prompt_tokens // 16 * 16
    assert second.usage.prompt_tokens_details.cached_tokens == alike // 16 * 16


def test_a_stream_says_the_same_as_an_answer_and_ends_with_usage(client: openai.OpenAI) -> None:
    options = {"model": MODEL, "messages": HELLO, "max_tokens": 24, "seed": 7}
    whole = client.chat.completions.create(**options)
    chunks = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_a_seed_makes_completions_repeatable_and_choices_of_n_differ(client: openai.OpenAI) -> None:
    # The model was taught chats alone: of a prompt that is none it is sure to go on badly, but for chance.
    options = {"model": MODEL, "prompt": "Once", "max_tokens": 16, "seed": 3, "n": 3, "temperature": 2, "top_p": 1}
    first, second = (client.completions.create(**options) for _ in range(2))
    texts = [choice.text for choice in first.choices]
    assert texts == [choice.text for choice in second.choices]
    assert len(set(texts)) == 3
    free = client.completions.create(model=MODEL, prompt="Once", max_tokens=16, n=2, temperature=2, top_p=1)
    assert free.choices[0].text != free.choices[1].text


def test_streams_with_the_same_request_id_keep_their_texts_apart(
    emulator: ServerProcess, client: openai.OpenAI
) -> None:
    def text(number: int, headers: dict[str, str]) -> str:
        options = {"model": MODEL, "prompt": f"Number {number}", "max_tokens": 6 + 7 * number, "seed": number}
        extra = {"extra_headers": headers, "extra_body": {"ignore_eos": True}}
        chunks = list(client.completions.create(**options, stream=True, **extra))
        assert chunks[-1].choices[0].finish_reason == "length"
        return "".join(chunk.choices[0].text for chunk in chunks)

    alone = [text(number, {}) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda number: text(number, {"x-request-id": "the same"}), range(6))) == alone


def test_a_stop_string_ends_the_text_before_it(client: openai.OpenAI) -> None:
    options = {"model": MODEL, "prompt": "Once", "max_tokens": 64, "seed": 5}
    whole = client.completions.create(**options).choices[0].text
    stop = whole[len(whole) // 2 :][:4]
    stopped = client.completions.create(**options, stop=[stop]).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.text == whole[: whole.index(stop)]


def test_logprobs_of_tokens_and_of_the_prompt(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=4, logprobs=True, top_logprobs=3, temperature=0
    )
    content = answer.choices[0].logprobs.content
    assert len(content) == 4
    assert all(len(token.top_logprobs) == 3 and token.logprob == token.top_logprobs[0].logprob for token in content)
    echoed = client.completions.create(**PLAIN, logprobs=1, echo=True)
    assert len(echoed.choices[0].logprobs.tokens) > 8


def test_min_tokens_and_ignore_eos_are_honoured(client: openai.OpenAI) -> None:
    extra = {"min_tokens": 30, "ignore_eos": True}
    assert client.completions.create(**PLAIN | {"max_tokens": 30}, extra_body=extra).usage.completion_tokens == 30


def test_an_answer_can_be_held_to_choices(client: openai.OpenAI) -> None:
    extra = {"structured_outputs": {"choice": ["yes", "no"]}}
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=20, extra_body=extra)
    assert answer.choices[0].message.content in ("yes", "no")


def test_the_other_routes(emulator: ServerProcess, client: openai.OpenAI) -> None:
    url = emulator.http_url
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.list().data[0].max_model_len == CONTEXT
    assert httpx.get(f"{url}/health", timeout=60).status_code == 200
    assert "version" in httpx.get(f"{url}/version", timeout=60).json()
    with httpx.Client(base_url=url, timeout=60) as asking:
        tokens = asking.post("/tokenize", json={"model": MODEL, "prompt": "Hello there"}).json()["tokens"]
        assert asking.post("/detokenize", json={"model": MODEL, "tokens": tokens}).json()["prompt"] == "Hello there"


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        ({"model": "gpt-5"}, 404, "gpt-5"),
        ({"temperature": -1}, 400, "temperature"),
        ({"top_p": 7}, 400, "top_p"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": CONTEXT * 2}, 400, "max_tokens"),
        ({"prompt": "word " * 2 * CONTEXT}, 400, "context"),
        ({"n": 0}, 400, "n"),
        ({"logprobs": 999}, 400, "logprobs"),
        ({"prompt": 7}, 400, "prompt"),
    ],
)
def test_bad_input_gets_a_sentence_and_costs_others_nothing(
    client: openai.OpenAI, wrong: dict[str, object], status: int, said: str
) -> None:
    with client.completions.create(**PLAIN | {"max_tokens": 60}, stream=True, extra_body={"ignore_eos": True}) as other:
        # On a busy machine one chunk may hold all that came meanwhile.
        first = next(iter(other))
        with pytest.raises(openai.APIStatusError) as caught:
            client.completions.create(**PLAIN | wrong)
        assert caught.value.status_code == status
        assert said in caught.value.message
        assert [first, *other][-1].choices[0].finish_reason == "length"


def test_malformed_json_is_a_bad_request(emulator: ServerProcess) -> None:
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{emulator.http_url}/v1/completions", content=b'{"model": ', headers=headers, timeout=60)
    assert answer.status_code == 400
    assert "json" in answer.json()["error"]["message"].lower()


def test_latencies_in_the_metrics_are_those_of_the_device_model(small_emulator: ServerProcess) -> None:
    # Before others have decoded for several at once: who decodes alone soon after may not do so plainly.
    client = openai.OpenAI(base_url=f"{small_emulator.http_url}/v1", api_key=SECRET, max_retries=0)
    until(lambda: idle(small_emulator))
    for number in range(5):
        before = settled(small_emulator)
        # Of some length: a prompt of one word is over sooner on the device than in the token source.
        asked = PLAIN | {"prompt": f"{number}: what is a contract? Answer in plain words, please.", "max_tokens": 33}
        answer = client.completions.create(**asked, extra_body={"ignore_eos": True})
        after = settled(small_emulator)
        grew = {name: after[name] - before.get(name, 0.0) for name in after}
        # A device makes steps until the next token is there: a late one costs some.
        if not grew["foreserve_underruns_total"] and grew["foreserve_step_latency_seconds_count"] == 33:
            break
    if grew["foreserve_underruns_total"]:
        pytest.skip("The token source was late each time.")
    length = answer.usage.prompt_tokens
    device = load_device("elmoe3d", "elmoe3d-8gb", MODEL)
    decode = device.probe(StepPlan.of((1, length)), 32).latency_s
    assert grew["vllm:inter_token_latency_seconds_sum"] == pytest.approx(decode.sum(), rel=1e-6)
    assert grew["vllm:inter_token_latency_seconds_count"] == 32
    assert grew["vllm:request_time_per_output_token_seconds_sum"] == pytest.approx(decode.mean(), rel=1e-6)
    prefill = device.probe(StepPlan.of((length, 0))).latency_s[0]
    assert grew["vllm:request_prefill_time_seconds_sum"] == pytest.approx(prefill, rel=1e-6)
    assert grew["vllm:prompt_tokens_total"] == length
    assert grew["vllm:generation_tokens_total"] == grew["foreserve_released_tokens_total"] == 33
    assert grew["foreserve_busy_seconds_total"] == pytest.approx(decode.sum() + prefill, rel=1e-6)


def test_a_key_is_asked_for_and_a_full_queue_says_when_to_come_back(small_emulator: ServerProcess) -> None:
    url = f"{small_emulator.http_url}/v1"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list()
    client = openai.OpenAI(base_url=url, api_key=SECRET, max_retries=0)
    until(lambda: idle(small_emulator))
    long = PLAIN | {"max_tokens": 900, "stream": True, "extra_body": {"ignore_eos": True}}
    streams = [client.completions.create(**long) for _ in range(2)]
    with pytest.raises(openai.RateLimitError) as caught:
        client.completions.create(**PLAIN)
    assert int(caught.value.response.headers["retry-after"]) >= 1
    assert "2 places" in caught.value.message
    for stream in streams:
        stream.close()


def test_of_a_burst_of_streams_those_without_a_place_get_a_status_and_no_stream(small_emulator: ServerProcess) -> None:
    until(lambda: idle(small_emulator))
    headers = {"Authorization": f"Bearer {SECRET}"}
    # Half a minute of tokens: who has a place keeps it until all have come, on a busy machine too.
    body = {"model": MODEL, "prompt": "Hello", "max_tokens": 900, "stream": True, "ignore_eos": True}
    with httpx.Client(base_url=small_emulator.http_url, headers=headers, timeout=60) as asking:

        def begun(_: int) -> httpx.Response:
            return asking.send(asking.build_request("POST", "/v1/completions", json=body), stream=True)

        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(begun, range(10)))
        assert sorted(answer.status_code for answer in answers) == [200] * 2 + [429] * 8
        for answer in answers:
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
            else:
                lines = answer.iter_lines()
                events = [line for line in (next(lines) for _ in range(6)) if line]
                # The model may well write of an error, and then in quotes that JSON has escaped.
                assert events and not any('"error":' in line for line in events)
            answer.close()


def test_who_asks_for_nothing_is_led_to_the_page(emulator: ServerProcess) -> None:
    led = httpx.get(emulator.http_url + "/", follow_redirects=True, timeout=60)
    assert led.status_code == 200 and led.url.path == "/ui" and "<title>" in led.text


@pytest.mark.parametrize("path", ["/health", "/ready", "/version", "/load", "/ui", "/metrics", "/openapi.json"])
def test_probes_may_ask_by_head(emulator: ServerProcess, path: str) -> None:
    answer, whole = (ask(emulator.http_url + path, timeout=60) for ask in (httpx.head, httpx.get))
    assert answer.status_code == 200 and not answer.content
    assert answer.headers.get("content-type") == whole.headers.get("content-type")


def test_a_request_may_name_its_device_by_a_data_parallel_rank(emulator: ServerProcess) -> None:
    def tokens_by_engine() -> dict[str, float]:
        families = text_string_to_metric_families(httpx.get(f"{emulator.http_url}/metrics", timeout=60).text)
        samples = [sample for family in families for sample in family.samples]
        return {
            sample.labels["engine"]: sample.value for sample in samples if sample.name == "vllm:generation_tokens_total"
        }

    def ask(rank: int) -> httpx.Response:
        headers, asked = {"X-data-parallel-rank": str(rank)}, PLAIN | {"ignore_eos": True}
        return httpx.post(f"{emulator.http_url}/v1/completions", json=asked, headers=headers, timeout=60)

    for rank in (1, 0, 1):
        before = tokens_by_engine()
        assert ask(rank).status_code == 200
        until(lambda rank=rank, before=before: tokens_by_engine()[str(rank)] >= before[str(rank)] + 8)
    refused = ask(99)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "data_parallel_rank"
    assert "There is no device 99" in refused.json()["error"]["message"]
    assert refused.json()["error"]["message"].endswith("those there are: 0, 1.")
