"""The tables: steps to be measured and as they were, loads to be served and as they were."""

import csv
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import NamedTuple, TextIO, TypeVar


class Step(NamedTuple):
    """Passes of `batch` sequences, each of `new_tokens` after `context` tokens: 1 in decoding, a prompt in prefill."""

    batch: int
    context: int
    new_tokens: int


class Call(NamedTuple):
    """A request of a load: when it comes, and its tokens."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int


class TimedStep(NamedTuple):
    """A step, the seconds that it took, and the watts that the GPU drew (None: unknown)."""

    step: Step
    seconds: float
    watts: float | None

    def row(self) -> tuple[str, ...]:
        """Return it as text, a field for each of `STEP_COLUMNS`."""
        return (*map(str, self.step), f"{self.seconds:.6f}", "" if self.watts is None else f"{self.watts:.0f}")


class ServedCall(NamedTuple):
    """A request, and when its first and its last token came; seconds since the load began, as its arrival."""

    call: Call
    first_s: float
    last_s: float

    def row(self) -> tuple[str, ...]:
        """Return it as text, a field for each of `LOAD_COLUMNS`."""
        arrival_s, *tokens = self.call
        return (f"{arrival_s:.4f}", *map(str, tokens), f"{self.first_s:.4f}", f"{self.last_s:.4f}")


STEP_COLUMNS = (*Step._fields, "seconds", "watts")
LOAD_COLUMNS = (*Call._fields, "first_s", "last_s")

Asked = TypeVar("Asked", Step, Call)


def read_steps(path: Path) -> list[Step]:
    """Return the steps that a table asks for; what it says beside them isn't read. A wrong one ends the program."""
    rows = list(_rows(path, Step))
    for number, step in rows:
        if step.batch < 1 or step.new_tokens < 1 or step.context < 0 or (step.context > 0) != (step.new_tokens == 1):
            raise SystemExit(
                f"{path}, line {number}: {', '.join(map(str, step))}; measured are batches from 1 on that decode (a "
                "context, and new_tokens 1), or prefill (context 0, and new_tokens from 2 on)."
            )
        if step.new_tokens > 1 and step.batch > 1:
            raise SystemExit(f"{path}, line {number}: a batch of {step.batch} prompts; prompts are measured alone.")
    return [step for _, step in rows]


def read_load(path: Path) -> list[Call]:
    """Return the requests of a load, in order of arrival. A wrong table ends the program."""
    rows = list(_rows(path, Call))
    for number, call in rows:
        if not isfinite(call.arrival_s) or call.arrival_s < 0 or call.prompt_tokens < 1 or call.output_tokens < 1:
            raise SystemExit(
                f"{path}, line {number}: {', '.join(map(str, call))}; allowed are times from 0 on, and tokens from 1 "
                "on."
            )
    return sorted(call for _, call in rows)


def write_row(file: TextIO, row: Iterable[str]) -> None:
    """Add a line at once, so that what is measured stays though the program be ended."""
    print(*row, sep=",", file=file, flush=True)


def _rows(path: Path, kind: type[Asked]) -> Iterator[tuple[int, Asked]]:
    """Yield the rows of a table, each with the number of its line."""
    types = kind.__annotations__
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{path} can't be read; allowed is a CSV file in UTF-8: {error}.") from None
    reader = csv.DictReader(lines)
    if missing := [name for name in types if name not in (reader.fieldnames or ())]:
        raise SystemExit(f"{path}, line 1: no column {missing[0]}; required are {', '.join(types)}.")
    empty = True
    for row in reader:
        empty = False
        try:
            yield reader.line_num, kind(**{name: of(row[name]) for name, of in types.items()})
        except (TypeError, ValueError):
            raise SystemExit(
                f"{path}, line {reader.line_num}: {', '.join(map(str, row.values()))}; allowed are numbers, whole ones "
                "but for seconds."
            ) from None
    if empty:
        raise SystemExit(f"{path} has no line below its first; allowed is one for each step or request.")
