"""`foreserve record`: has a token model answer prompts, and keeps the answers for requests that it has no time for."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from serving.lab.corpus import corpus
from serving.process.output_folder import make_place
from serving.recordings.recording import TOKENIZERS, RecordedAnswer, UnfitArrays, tokenizer_of, write
from serving.token_model.config_file import folder_with
from serving.token_model.route_format import is_routed
from serving.token_source.route_profile import answers
from serving.topics.names import NAMES, TOPICS, unknown_topic
from serving.usage_error import UsageError


class Asked(NamedTuple):
    """What is asked: so many `prompts` of each topic, or those of a `file`, answered with at most `tokens` each."""

    prompts: int
    tokens: int
    seed: int
    file: Path | None = None


class PromptLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of prompts."""

    prompt: str
    topic: str = ""


def record(token_model: str, asked: Asked, out: Path) -> int:
    """Ask, and write what was answered to `out`. Raise UsageError."""
    make_place("--out", out)
    digest = tokenizer_of(folder_with(token_model, TOKENIZERS))
    prompts = [*of_corpus(asked)] if asked.file is None else of_file(asked.file)
    routed = is_routed(token_model)
    found = [
        RecordedAnswer(each.topic, each.tokens, each.finished, each.routes if routed else None)
        for each in answers(token_model, prompts, asked.tokens, asked.seed, routed)
        if each.tokens
    ]
    try:
        write(out, found, digest)
    except UnfitArrays as error:
        raise UsageError(f"{out} is not written: {error}.") from error
    tokens, finished = sum(len(each.tokens) for each in found), sum(each.finished for each in found)
    topics = len({each.topic for each in found})
    print(f"{out}: {len(found)} answers of {topics} topics, {tokens} tokens; {finished} ended of themselves.")
    return 0


def of_corpus(asked: Asked) -> list[tuple[str, str]]:
    """Return prompts with their topics, of those that the bundled models have not seen in training."""
    return [(topic, prompt) for topic in TOPICS for prompt in corpus.prompts(topic, asked.prompts, asked.seed)]


def of_file(path: Path) -> list[tuple[str, str]]:
    """Return the prompts of a file with their topics: one a line, or JSON with `prompt` and `topic`."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}): --prompts-file wants one prompt a line.") from error
    found = [_of_line(path, number, line.removesuffix("\r")) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{path} has no prompts: --prompts-file wants one a line.")
    return found


def _of_line(path: Path, number: int, line: str) -> tuple[str, str]:
    if path.suffix != ".jsonl":
        return "", line
    try:
        read = msgspec.json.decode(line, type=PromptLine)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}, line {number}, is no prompt: {error}.") from error
    if read.topic not in ("", *NAMES):
        raise UsageError(f"{path}, line {number}: {unknown_topic(read.topic)}")
    return read.topic, read.prompt
