"""Labelled prompts: prompts with their topics, from a file with a line for each: the topic, a tab, and the prompt.

Only the first tab divides: further ones belong to the prompt. Blank lines are skipped, and a byte order mark too.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from serving.topics.names import NAMES, unknown_topic
from serving.usage_error import UsageError

STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class LabelledPrompt:
    """A prompt, its topic, and the number of its line, from 1 on."""

    topic: str
    prompt: str
    line: int


def read_labelled(path: Path) -> list[LabelledPrompt]:
    """Return the prompts in a file, or on stdin for `-`. Raise UsageError, naming file and line, if one is invalid."""
    where = "stdin" if path == STDIN else str(path)
    found = [
        _labelled(text.removesuffix("\r"), where, line)
        for line, text in enumerate(_text(path, where).split("\n"), 1)
        if text.strip()
    ]
    if not found:
        raise UsageError(f"{where} has no prompts; it needs at least one line: a topic, a tab, and a prompt.")
    return found


def _text(path: Path, where: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"Cannot read {where}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        # Of what was decoded, which lacks a byte order mark.
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(f"{where}, line {line}: this is not UTF-8; prompts must be.") from error


def _labelled(text: str, where: str, line: int) -> LabelledPrompt:
    topic, _, prompt = (part.strip() for part in text.partition("\t"))
    if "\t" not in text:
        raise UsageError(f"{where}, line {line}: there is no tab; a line is a topic, a tab, and a prompt.")
    if topic not in NAMES:
        raise UsageError(f"{where}, line {line}: {unknown_topic(topic)}")
    if not prompt:
        raise UsageError(f"{where}, line {line}: the prompt is empty; a line is a topic, a tab, and a prompt.")
    return LabelledPrompt(topic, prompt, line)
