"""A recording: answers that a token model gave once, by topic, with the experts that its routers chose for them.

`foreserve record` makes one. The file, of NumPy's compressed kind, has the arrays of `Recording`, and a header in JSON
with a digest of the tokenizer that the tokens are of.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.process.output_folder import whole_file
from serving.recordings.counted_arrays import wrong_with
from serving.usage_error import UsageError

FILE = "recording.npz"
"""The name of a recording's file, beside a token model's weights."""
VERSION = 1
COUNTED = {"tokens": 1, "ends": 1, "topic_of": 1, "routes": 3}
"""The arrays of a recording that have whole numbers from 0, and their dimensions."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


class UnfitArrays(ValueError):
    """Arrays that are no recording together; the message ends a sentence about their file."""


class RecordedAnswer(NamedTuple):
    """An answer to record: its topic, its tokens, and whether it ended by itself (its last token then says so).

    `routes` [tokens, layers, top_k]: the experts that led to each token, if the model has any.
    """

    topic: str
    tokens: Sequence[int]
    finished: bool
    routes: NDArray[np.integer[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """Answers one after the other. Raise UnfitArrays if they do not fit each other.

    `tokens` [tokens] are of all answers. By answer [answers], `ends` has its end among them, `topic_of` the index of
    its topic in `topics`, and `finished` whether it ended by itself. `routes` [tokens, layers, top_k], if the model has
    experts.
    """

    tokens: NDArray[np.integer[Any]]
    ends: NDArray[np.integer[Any]]
    topic_of: NDArray[np.integer[Any]]
    finished: NDArray[np.bool_]
    topics: tuple[str, ...]
    routes: NDArray[np.integer[Any]] | None = None

    def __post_init__(self) -> None:
        for name, dimensions in COUNTED.items():
            array = getattr(self, name)
            if array is not None and (wrong := wrong_with(array, dimensions)):
                raise UnfitArrays(f"its `{name}` {wrong}")
        if self.finished.dtype.kind != "b":
            raise UnfitArrays(f"its `finished` is of the type {self.finished.dtype}; allowed are truth values")
        answers = len(self.ends)
        lengths = np.diff(self.ends.astype(np.int64), prepend=0)
        whole = answers and lengths.min() > 0 and self.ends[-1] == len(self.tokens)
        if not whole or len(self.topic_of) != answers or self.finished.shape != (answers,):
            raise UnfitArrays("its answers are not whole")
        if self.topic_of.max() >= len(self.topics):
            raise UnfitArrays("its topics are not those of its answers")
        if self.routes is not None and len(self.routes) != len(self.tokens):
            raise UnfitArrays("its routes are not those of its tokens")


def tokenizer_of(folder: Path) -> str:
    """Return a digest of the tokenizer in a model's folder. Raise UsageError if there is none."""
    for name in TOKENIZERS:
        if (folder / name).is_file():
            return hashlib.sha256((folder / name).read_bytes()).hexdigest()
    raise UsageError(f"{folder} has no tokenizer ({', '.join(TOKENIZERS)}): no recording can be checked against it.")


def vocabulary_of(folder: Path) -> int | None:
    """Return the number of tokens that the model in a folder knows; None if its folder does not say."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    size = config.get("vocab_size") if isinstance(config, dict) else None
    return size if isinstance(size, int) else None


def write(path: Path, answers: Sequence[RecordedAnswer], tokenizer: str) -> None:
    """Write a recording; `tokenizer` is the digest of the tokenizer that the tokens are of. Raise UsageError if it
    cannot be written, UnfitArrays if an answer has not as many routes as tokens."""
    topics = tuple(dict.fromkeys(answer.topic for answer in answers))
    tokens = np.concatenate([np.asarray(answer.tokens, dtype=np.uint32) for answer in answers])
    routes = [answer.routes for answer in answers if answer.routes is not None]
    arrays: dict[str, Any] = {
        "tokens": tokens.astype(np.uint16) if tokens.max() < 2**16 else tokens,
        "ends": np.cumsum([len(answer.tokens) for answer in answers]),
        "topic_of": np.array([topics.index(answer.topic) for answer in answers]),
        "finished": np.array([answer.finished for answer in answers]),
    }
    if len(routes) == len(answers):
        experts = np.concatenate(routes)
        arrays["routes"] = experts.astype(np.uint8 if experts.max() < 256 else np.uint16)
    Recording(**{"routes": None, **arrays}, topics=topics)
    header = {"version": VERSION, "topics": topics, "tokenizer": tokenizer}
    with whole_file(path) as file:
        np.savez_compressed(file, header=np.array(json.dumps(header)), **arrays)


def read(path: Path, folder: Path) -> Recording:
    """Return the recording in a file, for the model in `folder`. Raise UsageError, which says how to make one.

    Its tokens must be of that model's tokenizer.
    """
    how = f"Make one: foreserve record --token-model {folder} --out {path}"
    try:
        header, recording = _loaded(path)
    except OSError as error:
        raise UsageError(
            f"{path} is no recording that can be read: {error.strerror or 'not a file of arrays'}. {how}"
        ) from error
    except UnfitArrays as error:
        raise UsageError(f"{path} is no recording that can be read: {error}. {how}") from error
    except Exception as error:  # numpy, zipfile and zlib raise whatever they stumble over
        raise UsageError(
            f"{path} is no recording that can be read: it is another file, or a damaged one. {how}"
        ) from error
    if header["tokenizer"] != tokenizer_of(folder):
        raise UsageError(f"{path} was recorded with another tokenizer than that of {folder}. {how}")
    if (most := vocabulary_of(folder)) is not None and recording.tokens.max() >= most:
        token = recording.tokens.max()
        raise UsageError(f"{path} has a token {token}, and the model in {folder} has {most} of them. {how}")
    return recording


def _loaded(path: Path) -> tuple[dict[str, Any], Recording]:
    with np.load(path, allow_pickle=False) as found:
        header = json.loads(str(found["header"]))
        arrays = {name: found[name] for name in ("tokens", "ends", "topic_of", "finished")}
        routes = found.get("routes")
    if header["version"] != VERSION:
        raise UnfitArrays(f"it is of version {header['version']}, and this reads {VERSION}")
    if not isinstance(header["tokenizer"], str) or not all(isinstance(topic, str) for topic in header["topics"]):
        raise UnfitArrays("its tokenizer and topics are not told in text")
    return header, Recording(**arrays, topics=tuple(header["topics"]), routes=routes)
