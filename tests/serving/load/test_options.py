import json

import pytest
from tokenizers import Tokenizer

from serving.load.address import EndpointAddress
from serving.load.options import LoadOptions, OptionError
from serving.load.plan import LoadPlan
from serving.load.prompts import read_prompts
from serving.load.request import body
from serving.scenario.scenario import BUNDLED_MODEL


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.txt", None, ["cannot be read"]),
        ("empty.txt", "\n\n", ["no prompts"]),
        ("bad.jsonl", '{"prompt": "x"}\nnonsense', ["prompt 2", "JSON object"]),
        ("bad.jsonl", '{"text": "x"}', ["prompt 1"]),
        ("bad.jsonl", '{"prompt": 3}', ["must be a string"]),
    ],
)
def test_a_wrong_prompt_file_is_told_before_anything_is_sent(tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(OptionError) as caught:
        LoadPlan.of(LoadOptions(prompts=path))
    assert all(word in str(caught.value) for word in ["--prompts", str(path), *words])


@pytest.mark.parametrize(
    ("url", "base_url"),
    [
        ("http://h", "http://h:80"),
        ("http://h:81/v1/", "http://h:81"),
        ("https://h/a/v1", "https://h:443/a"),
        ("http://[::1]:81", "http://[::1]:81"),
        ("grpc://h", "grpc://h:50051"),
        ("grpcs://[::1]:5", "grpcs://[::1]:5"),
    ],
)
def test_addresses(url, base_url):
    assert EndpointAddress.of(url).base_url == base_url


def test_the_same_seed_asks_the_same(tmp_path):
    options = LoadOptions(seed=3, range_ratio=0.5, input_len=20, output_len=10, num_requests=50)
    first, again = list(LoadPlan.of(options)), list(LoadPlan.of(options))
    assert first == again
    assert {len(request.prompt.split()) for request in first} <= set(range(10, 31))
    assert {request.max_tokens for request in first} <= set(range(5, 16))
    assert len({request.prompt for request in first}) == 50


def test_a_word_is_a_token_of_the_bundled_model():
    tokenizer = Tokenizer.from_file(str(BUNDLED_MODEL / "tokenizer.json"))
    prompt = next(iter(LoadPlan.of(LoadOptions(input_len=500)))).prompt
    assert len(tokenizer.encode(prompt, add_special_tokens=False).ids) == pytest.approx(500, rel=0.02)


def test_prompts_of_a_file_are_used_in_turn(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": word}, ensure_ascii=False) for word in ("a", "b\u2028c")))
    asked = list(LoadPlan.of(LoadOptions(prompts=path, num_requests=3)))
    assert [request.prompt for request in asked] == ["a", "b\u2028c", "a"]


def test_a_byte_order_mark_is_no_part_of_a_prompt(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert read_prompts(path) == ["one", "two"]


def test_extensions_are_left_out_on_wish():
    request = next(iter(LoadPlan.of(LoadOptions())))
    assert body(request, LoadOptions(), "m").keys() >= {"ignore_eos", "min_tokens", "prompt"}
    plain = body(
        request, LoadOptions(endpoint="chat", respect_eos=True, temperature=0.5, extra_body={"user": "u"}), "m"
    )
    assert plain.keys() == {"model", "messages", "max_tokens", "stream", "stream_options", "temperature", "user"}


def test_who_asks_for_more_of_a_stream_still_gets_its_usage():
    request = next(iter(LoadPlan.of(LoadOptions())))

    def asked(options: object) -> object:
        return body(request, LoadOptions(extra_body={"stream_options": options}), "m")["stream_options"]

    assert asked({"continuous_usage_stats": True}) == {"include_usage": True, "continuous_usage_stats": True}
    assert asked({"include_usage": False}) == {"include_usage": False}
    assert asked(None) is None  # for the server to refuse, or not


def arrivals(**options):
    return [request.arrival_s for request in LoadPlan.of(LoadOptions(**options))]


@pytest.mark.parametrize("kind", ["poisson", "constant"])
def test_arrivals_keep_their_rate_and_their_bounds(kind):
    times = arrivals(arrivals=kind, rate_per_s=5.0, num_requests=2000)
    assert times == sorted(times) and len(times) == 2000
    assert times[-1] == pytest.approx(400, rel=0.1)
    within = arrivals(arrivals=kind, rate_per_s=5.0, num_requests=2000, duration_s=20.0)
    assert within == [at_s for at_s in times if at_s < 20.0]
    assert arrivals(arrivals=kind, rate_per_s=float("inf"), num_requests=3) == [0.0] * 3


def test_constant_arrivals_are_evenly_spaced_from_0():
    assert arrivals(arrivals="constant", rate_per_s=4.0, num_requests=5) == [0.0, 0.25, 0.5, 0.75, 1.0]
