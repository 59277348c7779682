"""Are recorded routes read as they were chosen, and does a device follow them?"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from device_model.experts.route_map import RouteMap, Routers
from serving.device.routed_pricing import TracedDevice
from serving.device.traced_pricing import TracePricer
from serving.scenario.scenario import BUNDLED_MODEL
from serving.simulation.recorded_routes import FILE, RecordedRoutes, TapedRequest, read, record, tape_of
from serving.token_model.route_format import format_of
from serving.types import Batch
from serving.usage_error import UsageError

TRACE = TracedDevice("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", str(BUNDLED_MODEL))
ROUTERS = format_of(str(BUNDLED_MODEL)).routers
TAPE = read(BUNDLED_MODEL / FILE, ROUTERS)
AS_TARGET = RouteMap(ROUTERS, Routers(48, 128, 8))


def batch(requests: list[tuple[int, str, int, int]]) -> Batch:
    seeds, topics, context, new = (list(column) for column in zip(*requests, strict=True))
    ids = [str(i) for i in range(len(requests))]
    return Batch(ids, new, context, [True] * len(ids), 0.0, seeds=seeds, topics=topics)


def taped(topic: str, first: int, end: int, prompt: int = 1) -> TapedRequest:
    return TapedRequest(topic, TAPE.routes[first:end], list(range(first, end)), prompt)


def test_a_recording_is_read_as_it_was_made(tmp_path: Path) -> None:
    routes = [taped("cs", 0, 5, prompt=3), taped("legal", 5, 7), taped("cs", 7, 9)]
    record(routes, tmp_path / FILE)
    found = read(tmp_path / FILE, ROUTERS)
    assert found.ids.tolist() == [0, 1, 2, 3, 4, 7, 8, 5, 6] and found.ends.tolist() == [5, 7, 9]
    assert found.places == {"cs": (0, 7), "legal": (7, 2), "": (0, 9)}
    assert (found.routes == TAPE.routes[[0, 1, 2, 3, 4, 7, 8, 5, 6]]).all()
    assert found.answers.tolist() == [3, 4, 6, 8]
    assert found.answer_places == {"cs": (0, 3), "legal": (3, 1), "": (0, 4)}


def test_a_recording_is_read_once_and_again_once_its_file_has_changed(tmp_path: Path) -> None:
    shutil.copy(BUNDLED_MODEL / "config.json", tmp_path)
    record([taped("cs", 0, 5, prompt=3)], tmp_path / FILE)
    trace, one = TRACE._replace(token_model=str(tmp_path)), batch([(0, "cs", 0, 1)])
    assert tape_of(str(tmp_path)) is tape_of(str(tmp_path))
    assert RecordedRoutes(trace).places(one, np.array([0])).tolist() == [3]
    record([taped("cs", 0, 3)], tmp_path / FILE)
    assert tape_of(str(tmp_path)).ids.tolist() == [0, 1, 2]
    assert RecordedRoutes(trace).places(one, np.array([0])).tolist() == [1]


def test_there_are_routes_of_each_topic() -> None:
    assert len(TAPE.routes) > 10_000 and min(length for _, length in TAPE.places.values()) > 1000


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**62),
            st.sampled_from(["cs", "legal", "", "poetry"]),
            st.integers(0, 30_000),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_each_prompt_reads_its_topics_tape_from_its_own_place(requests: list[tuple[int, str, int, int]]) -> None:
    of = msgspec.structs.replace(batch(requests), released=[0] * len(requests))
    rows, guessed = RecordedRoutes(TRACE).rows(of, np.array(of.new_tokens), np.array(of.context))
    wanted = []
    for seed, topic, context, new in requests:
        start, length = TAPE.places.get(topic, TAPE.places[""])
        wanted += [TAPE.routes[start + (seed % length + context + i) % length] for i in range(new)]
    assert guessed == 0
    assert (rows == AS_TARGET(np.array(wanted).astype(np.int64))).all()


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62), st.sampled_from(["math", ""]), st.integers(0, 9_000)), min_size=1, max_size=4
    )
)
def test_a_sequence_that_decodes_reads_answers_alone(requests: list[tuple[int, str, int]]) -> None:
    of = batch([(seed, topic, 30 + made, 1) for seed, topic, made in requests])
    of = msgspec.structs.replace(of, released=[1] * len(requests))
    assert all(of.decodes)
    rows, _ = RecordedRoutes(TRACE).rows(of, np.array(of.new_tokens), np.array(of.context), ahead=2)
    wanted = []
    for seed, topic, made in requests:
        start, length = TAPE.answer_places[topic]
        wanted += [TAPE.answers[start + (seed % length + 30 + made + i) % length] for i in range(3)]
    assert (rows == AS_TARGET(TAPE.routes[wanted].astype(np.int64))).all()


def test_no_token_of_a_prompt_is_among_the_answers() -> None:
    """A prompt of the bundled model's ends with the head of an answer, which no answer has."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(BUNDLED_MODEL)
    head = tokenizer.encode("<|im_start|>", add_special_tokens=False)
    assert np.isin(TAPE.ids, head).sum() == 2 * len(TAPE.ends)
    assert not np.isin(TAPE.ids[TAPE.answers], head).any()


def test_a_device_hits_more_where_requests_share_a_topic() -> None:
    def hit_rate(topics: list[str]) -> float:
        traced = TracePricer(TRACE._replace(hardware="elmoe3d-4gb"), RecordedRoutes(TRACE))
        costs = []
        for step in range(60):
            of = batch([(1000 + 37 * i, topic, step, 1) for i, topic in enumerate(topics)])
            costs.append(next(traced.price(of, 1e11)).cost)
        return sum(cost.expert_hits for cost in costs[20:]) / sum(cost.expert_lookups for cost in costs[20:])

    assert hit_rate(["cs"] * 6) > hit_rate(["cs", "legal", "math", "humanities", "science", "other"])


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_missing_recording_is_told_with_how_to_make_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE
    if content:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="foreserve locality --token-model"):
        read(path, ROUTERS)


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_recording_that_is_cut_off_is_told_by_its_name(tmp_path: Path, kept: float) -> None:
    record([taped("cs", 0, 5), taped("legal", 5, 9)], path := tmp_path / FILE)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(UsageError, match=f"{path} has none; make it: foreserve locality"):
        read(path, ROUTERS)


def test_a_recording_that_lacks_an_array_says_which(tmp_path: Path) -> None:
    record([taped("cs", 0, 5)], path := tmp_path / FILE)
    with np.load(path) as found:
        arrays = {name: array for name, array in found.items() if name != "prompts"}
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"{path} has none \\(it lacks prompts\\); make it"):
        read(path, ROUTERS)


@pytest.mark.parametrize("cut", ["routes", "ids", "ends", "prompts", "tokens"])
def test_a_recording_whose_arrays_do_not_fit_each_other_is_refused(tmp_path: Path, cut: str) -> None:
    record([taped("cs", 0, 5), taped("legal", 5, 9)], path := tmp_path / FILE)
    with np.load(path) as found:
        arrays = dict(found)
    np.savez(path, **arrays | {cut: arrays[cut][:-1]})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"{path} has arrays that do not fit each other; make it"):
        read(path, ROUTERS)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("prompts", lambda prompts: prompts - 3, "its `prompts` has -2; allowed is 0 or more"),
        ("routes", lambda routes: routes.astype(np.float32), "its `routes` is of the type float32; allowed are whole"),
        ("routes", lambda routes: routes.astype(np.int16) - 300, "its `routes` has -[0-9]+; allowed is 0 or more"),
        ("ids", lambda ids: ids + 0.5, "its `ids` is of the type float64; allowed are whole numbers"),
        ("tokens", lambda tokens: tokens.sum(), "its `tokens` has 0 dimensions; allowed are 1"),
        ("ends", lambda ends: ends + np.array([7, 0]), "has arrays that do not fit each other"),
        ("topics", lambda topics: topics[:1], "has arrays that do not fit each other"),
    ],
)
def test_an_array_that_can_be_none_of_a_recording_is_refused(
    tmp_path: Path, name: str, change: Callable[[NDArray[Any]], NDArray[Any]], said: str
) -> None:
    record([taped("cs", 0, 5), taped("legal", 5, 9)], path := tmp_path / FILE)
    with np.load(path) as found:
        arrays = dict(found)
    np.savez(path, **arrays | {name: change(arrays[name])})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"^{path}:? {said}.*; make it: foreserve locality"):
        read(path, ROUTERS)


def test_a_recording_with_a_topic_that_has_no_answer_is_refused(tmp_path: Path) -> None:
    record([taped("cs", 0, 5), taped("legal", 5, 7, prompt=2)], tmp_path / FILE)
    with pytest.raises(UsageError, match="a topic without answers; make it: foreserve locality"):
        read(tmp_path / FILE, ROUTERS)


def test_a_recording_of_another_model_is_refused(tmp_path: Path) -> None:
    record([taped("cs", 0, 5)], tmp_path / FILE)
    with pytest.raises(UsageError, match="another model"):
        read(tmp_path / FILE, Routers(2, 8, 2))
