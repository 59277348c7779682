"""Bailian (Qwen): Mooncake's fields, with `timestamp` in seconds and blocks of 16 tokens, and `chat_id`,
`parent_chat_id`, `turn` and `type`. What the turns of a chat share is in `hash_ids`, so those others are not needed."""

from collections.abc import Iterator
from pathlib import Path

from serving.workload.traces import mooncake
from serving.workload.traces.rows import TraceRow

BLOCK_TOKENS, UNIT_S = 16, 1.0


def read(path: Path) -> Iterator[TraceRow]:
    """Return the rows of a trace."""
    return mooncake.read(path, BLOCK_TOKENS, UNIT_S)
