"""Recorded expert routes for virtual time: the token model's, one topic's requests after another's.

`foreserve locality --record FILE` makes a recording. A request reads its topic's tape from a place that its seed gives,
token by token, and while it decodes the answers on it alone; at the tape's end it goes on at the beginning.
"""

import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from device_model.experts.residency import BoolArray, CheckedRoutes, check
from device_model.experts.route_map import RouteMap, Routers
from device_model.load import load_model
from device_model.specs.file_state import FileState
from device_model.step import IntArray
from serving.device.routed_pricing import TracedDevice
from serving.process.output_folder import whole_file
from serving.recordings.counted_arrays import wrong_with
from serving.token_model.route_format import format_of
from serving.types import Batch
from serving.usage_error import UsageError

FILE = "routes.npz"
"""Beside a token model's weights."""
UNREADABLE = (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error)
"""What numpy raises of a file that is no recording, has another one's arrays, or is cut off or damaged."""

COUNTED = {"routes": 3, "tokens": 1, "ids": 1, "ends": 1, "prompts": 1}
"""The arrays of a recording that have whole numbers from 0, and their dimensions."""

Ids = NDArray[np.integer]


Places = Mapping[str, tuple[int, int]]
"""Of each topic, the first of some tokens in a row and their number; the topic "" spans all."""


class TapedRequest(NamedTuple):
    """A request to record: its topic, the `routes` [tokens, layers, top_k] of its tokens, their ids, and how many of
    them are its prompt."""

    topic: str
    routes: IntArray
    ids: list[int]
    prompt: int


class Tape(NamedTuple):
    """`routes` [tokens, layers, top_k] and `ids` of the tokens of all topics in a row, their `places`, and where each
    request `ends` among them; `answers` are the tokens that are no prompt's, and `answer_places` those of the topics
    among these."""

    routes: Ids
    places: Places
    ids: Ids
    ends: Ids
    answers: IntArray
    answer_places: Places


def record(requests: Sequence[TapedRequest], path: Path) -> None:
    """Write requests to `path`, those of a topic behind each other; an expert id takes a byte, or two beyond 256
    experts. Raise UsageError if it cannot be written."""
    topics = list(dict.fromkeys(each.topic for each in requests))
    ordered = sorted(requests, key=lambda each: topics.index(each.topic))
    routes = np.concatenate([each.routes for each in ordered])
    kind = np.uint8 if routes.max() < 256 else np.uint16
    with whole_file(path) as file:
        np.savez_compressed(
            file,
            routes=routes.astype(kind),
            topics=topics,
            tokens=[sum(len(each.ids) for each in ordered if each.topic == topic) for topic in topics],
            ids=np.concatenate([each.ids for each in ordered]).astype(np.uint32),
            ends=np.cumsum([len(each.ids) for each in ordered]),
            prompts=[each.prompt for each in ordered],
        )


def read(path: Path, routers: Routers) -> Tape:
    """Read a recording made with `routers`. Raise UsageError, which says how to make one."""
    how = f"make it: foreserve locality --token-model {path.parent} --record {path}"
    try:
        with np.load(path, allow_pickle=False) as found:
            topics, counted = found["topics"].tolist(), {name: found[name] for name in COUNTED}
    except UNREADABLE as error:
        lacks = f" (it lacks {error.args[0].split(' ')[0]})" if isinstance(error, KeyError) else ""
        raise UsageError(
            f"Traced residency in virtual time follows recorded routes, and {path} has none{lacks}; {how}"
        ) from error
    for name, array in counted.items():
        if wrong := wrong_with(array, COUNTED[name]):
            raise UsageError(f"{path}: its `{name}` {wrong}; {how}")
    routes, tokens, ids = counted["routes"], counted["tokens"].tolist(), counted["ids"].astype(np.int64)
    ends, prompts = counted["ends"].astype(np.int64), counted["prompts"]
    last = int(ends[-1]) if len(ends) else 0
    fits = len(topics) == len(tokens) and len(prompts) == len(ends) and (np.diff(ends) >= 0).all()
    if {len(routes), len(ids), sum(tokens)} != {last} or not last or not fits:
        raise UsageError(f"{path} has arrays that do not fit each other; {how}")
    if routes.shape[1:] != (routers.layers, routers.top_k) or routes.max() >= routers.experts:
        chosen = f"{routers.top_k} of {routers.experts} experts in each of {routers.layers} layers"
        raise UsageError(f"{path} is of another model than {path.parent} is, whose routers choose {chosen}; {how}")
    answered = _behind(prompts, ends)
    of_topics = np.split(answered, np.cumsum(tokens)[:-1])
    if not all(each.any() for each in of_topics):
        raise UsageError(f"{path} has a topic without answers; {how}")
    answer_places = _in_a_row(topics, [int(each.sum()) for each in of_topics])
    return Tape(routes, _in_a_row(topics, tokens), ids, ends, np.flatnonzero(answered), answer_places)


def _behind(prompts: Ids, ends: Ids) -> BoolArray:
    """Tell of each token on a tape whether it lies behind its request's prompt."""
    lengths = np.diff(ends, prepend=0)
    within = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
    return within >= np.repeat(prompts, lengths)


def _in_a_row(topics: list[str], tokens: list[int]) -> Places:
    starts = np.cumsum([0, *tokens[:-1]]).tolist()
    return dict(zip(topics, zip(starts, tokens, strict=True), strict=True)) | {"": (0, sum(tokens))}


class RecordedRoutes:
    """The `Choices` of a recording, mapped to the emulated model's experts."""

    def __init__(self, trace: TracedDevice) -> None:
        """Raise UsageError if the token model has no recording."""
        model = load_model(trace.model)
        target = Routers(model.expert_layers, model.experts, model.top_k)
        state = FileState.of(Path(trace.token_model) / FILE)
        self._routes, self._tape = _as_target(trace.token_model, state, target)
        # What is read, one behind the other: the whole tape, and the answers on it.
        self._reel = np.concatenate([np.arange(len(self._tape.routes)), self._tape.answers])

        # Where its sequences read on the reel, which stays so for all of its steps.
        self._batch: Batch | None = None
        self._starts = self._lengths = self._begin = np.empty(0, dtype=np.int64)

    def emulate(self, trace: TracedDevice) -> None:
        """Ignore the device's condition: recorded routes do not depend on it."""

    def rows(self, batch: Batch, new: IntArray, context: IntArray, ahead: int = 0) -> tuple[IntArray, int]:
        """Return the routes of the batch's new tokens [tokens, layers, top_k], and of `ahead` more of sequences that
        decode; none of them is guessed."""
        at = self._on_reel(batch, context)
        if ahead:
            new = np.where(batch.decodes, 1 + ahead, new)
        if len(batch.ids) < new.sum():
            counts, starts, lengths = new, np.repeat(self._starts, new), np.repeat(self._lengths, new)
            within = np.concatenate([np.arange(count) for count in counts])
            at = starts + (np.repeat(at - self._starts, new) + within) % lengths
        routes: IntArray = self._routes[self._reel[at]]
        return routes, 0

    def places(self, batch: Batch, context: IntArray) -> IntArray:
        """Return where on the tape each sequence of a batch reads behind its first `context` [n] tokens."""
        places: IntArray = self._reel[self._on_reel(batch, context)]
        return places

    def _on_reel(self, batch: Batch, context: IntArray) -> IntArray:
        if batch is not self._batch:
            topics = batch.topics or [""] * len(batch.ids)
            places = [self._place(topic, decodes) for topic, decodes in zip(topics, batch.decodes, strict=True)]
            self._batch = batch
            self._starts, self._lengths = np.array(places, dtype=np.int64).T
            self._begin = np.array(batch.seeds, dtype=np.int64) % self._lengths
        return self._starts + (self._begin + context) % self._lengths

    def _place(self, topic: str, decodes: bool) -> tuple[int, int]:
        """Return where a topic's tokens, or the answers among them, begin on the reel, and their number."""
        whole, answers = self._tape.places, self._tape.answer_places
        if not decodes:
            return whole.get(topic, whole[""])
        start, length = answers.get(topic, answers[""])
        return len(self._tape.routes) + start, length


def tape_of(token_model: str) -> Tape:
    """Return a token model's recording, read once, and again once its file has changed. Raise UsageError if it has
    none."""
    return _tape(token_model, FileState.of(Path(token_model) / FILE))


@lru_cache(maxsize=4)
def _tape(token_model: str, state: FileState | None) -> Tape:
    return read(Path(token_model) / FILE, format_of(token_model).routers)


@lru_cache(maxsize=4)
def _as_target(token_model: str, state: FileState | None, target: Routers) -> tuple[CheckedRoutes, Tape]:
    """Return a recording's routes as those of the emulated model, made once for all devices, and the recording."""
    tape = tape_of(token_model)
    routes = RouteMap(format_of(token_model).routers, target)(tape.routes.astype(np.int64))
    return check(routes.astype(np.int16), target.layers, target.experts), tape
