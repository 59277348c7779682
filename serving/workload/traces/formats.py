"""The formats of traces, and their readers."""

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from serving.toml_table import COUNT, TomlTable
from serving.workload.traces import azure, bailian, burstgpt, mooncake, plain, sharegpt
from serving.workload.traces.rows import TraceRow, bad, unreadable
from serving.workload.traces.rows import plain as plainly

BLOCK_TOKENS = 16  # Of `hash_ids` in a trace of one's own, unless it says something else.
ENOUGH = 1 << 16  # Letters of a file by which its format is known.


class TraceOptions(NamedTuple):
    """Options of a table `trace`: the tokens of a block of `hash_ids`, and what counts the tokens of texts."""

    block_tokens: int
    tokenizer: Path | None


READERS: dict[str, Callable[[Path, TraceOptions], Iterator[TraceRow]]] = {
    "azure": lambda path, _: azure.read(path),
    "burstgpt": lambda path, _: burstgpt.read(path),
    "mooncake": lambda path, _: mooncake.read(path),
    "bailian": lambda path, _: bailian.read(path),
    "sharegpt": lambda path, options: sharegpt.read(path, options.tokenizer),
    "csv": lambda path, _: plain.read_csv(path),
    "jsonl": lambda path, options: plain.read_jsonl(path, options.block_tokens),
    "parquet": lambda path, options: plain.read_parquet(path, options.block_tokens),
}
FORMATS = tuple(READERS)
BLOCKS_OF_ONES_OWN = ("jsonl", "parquet")
OF_ONES_OWN = ("csv", *BLOCKS_OF_ONES_OWN)
"""Formats whose rows may name an SLO class."""


@dataclass(frozen=True, slots=True)
class TraceReader:
    """A trace, and what reads it from the beginning."""

    path: Path
    format: str
    read: Callable[[], Iterator[TraceRow]]

    @property
    def may_name_classes(self) -> bool:
        """Tell whether its rows have a place for an SLO class."""
        return self.format in OF_ONES_OWN


def reader(table: TomlTable) -> TraceReader:
    """Return the reader of the file that a table `trace` names."""
    path = table.file("file")
    kind = table.word("format", ("auto", *FORMATS), "auto")
    if kind == "auto":
        kind = _guess(path)
    block_tokens = table.whole("block_tokens", COUNT, BLOCK_TOKENS)
    tokenizer = table.file("tokenizer") if "tokenizer" in table else None
    table.get("tokenizer")
    if "block_tokens" in table and kind not in BLOCKS_OF_ONES_OWN:
        allowed = " and ".join(BLOCKS_OF_ONES_OWN)
        raise table.error("block_tokens", f"is set, and the format is {kind}: it is for `hash_ids` of {allowed} alone.")
    if tokenizer and kind != "sharegpt":
        raise table.error("tokenizer", f"is set, and the format is {kind}: only sharegpt has text to count.")
    return TraceReader(path, kind, partial(READERS[kind], path, TraceOptions(block_tokens, tokenizer)))


def _guess(path: Path) -> str:
    """Guess the format by the file's name and its beginning."""
    if path.suffix == ".parquet":
        return "parquet"
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            begin = "".join(islice(iter(partial(file.read, 4096), ""), ENOUGH // 4096)).lstrip()
    except OSError as error:
        raise unreadable(path, error) from error
    first = begin.partition("\n")[0]
    return "sharegpt" if begin.startswith("[") else _of_object(first) if begin.startswith("{") else _of_header(first)


def _of_header(line: str) -> str:
    names = {plainly(name) for name in next(csv.reader([line]), [])}
    return "azure" if "contexttokens" in names else "burstgpt" if "requesttokens" in names else "csv"


def _of_object(line: str) -> str:
    try:
        names = set(json.loads(line))
    except (ValueError, RecursionError):
        # Longer than what was read, and so a conversation; or broken, as its reader will say.
        names = {"conversations"} if '"conversations"' in line else set()
    if names & {"conversations", "messages"}:
        return "sharegpt"
    if "input_length" in names:
        return "bailian" if "chat_id" in names else "mooncake"
    return "jsonl"


def check_time(found: TraceReader, row: TraceRow) -> None:
    """Raise `WorkloadError` if a row has no time."""
    if row.at_s != row.at_s:
        sentence = f"there is no time (format {found.format}), so no window, and only another kind of `arrivals`."
        raise bad(found.path, row.line, sentence)
