"""Measures what the command line asks for: `python -m tools.measure_gpu --help`."""

import argparse
import sys
from math import inf
from pathlib import Path
from typing import NamedTuple

from tools.measure_gpu.engine import SEQUENCES, Engine, Settings, check_memory, config_of, started
from tools.measure_gpu.loads import served
from tools.measure_gpu.popularity import SPREAD, distinct_by_law
from tools.measure_gpu.power import Meter
from tools.measure_gpu.steps import SLACK_TOKENS, decoded, measured, room_of
from tools.measure_gpu.tables import (
    LOAD_COLUMNS,
    STEP_COLUMNS,
    Call,
    Step,
    read_load,
    read_steps,
    write_row,
)

COUNTED_BATCH = 16
COUNTED_STEPS = 64
"""Tokens that each sequence of a counted batch decodes: so many that a prompt of them all, in whose pass they are
counted, is larger than what a CUDA graph holds (512)."""
WARMING = 4
"""Requests of a load that are served beforehand, for nothing."""


class Asked(NamedTuple):
    """What is to be measured, by the name of its file: steps, and loads; and the spread of experts in each."""

    steps: dict[str, list[Step]]
    loads: dict[str, list[Call]]
    spreads: dict[str, float]


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.measure_gpu", description=__doc__, allow_abbrev=False)
    steps = "CSV of steps (batch, context, new_tokens), of tokens that choose experts"
    parser.add_argument("--popular", type=Path, metavar="FILE", help=f"{steps} by popularity")
    parser.add_argument("--even", type=Path, metavar="FILE", help=f"{steps} evenly")
    load = "CSV of requests (arrival_s, prompt_tokens, output_tokens), served with popular experts; any number of them"
    parser.add_argument("--load", type=Path, nargs="+", default=[], metavar="FILE", help=load)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the tables are written")
    parser.add_argument(
        "--config", default="{}", metavar="JSON", help="keys of config.json that differ from Qwen3-30B-A3B"
    )
    parser.add_argument("--spread", type=float, default=SPREAD, help=f"popularity_spread of a calibration ({SPREAD})")
    parser.add_argument("--memory-share", type=float, default=0.95, help="vLLM's gpu_memory_utilization (0.95)")
    parser.add_argument("--eager", action="store_true", help="neither torch.compile nor CUDA graphs")
    parser.add_argument("--seed", type=int, default=0, help="of weights and prompts (0)")
    return parser.parse_args()


def asked(given: argparse.Namespace) -> Asked:
    """Read the tables. End the program if there is none, if two are of one name, or if one would be
    overwritten."""
    steps = {name: read_steps(path) for name in ("popular", "even") if (path := getattr(given, name))}
    loads = {path.stem: read_load(path) for path in given.load}
    if not steps and not loads:
        raise SystemExit("Nothing is to be measured; allowed are --popular, --even and --load, each with a CSV file.")
    if len(loads) < len(given.load) or loads.keys() & {"popular", "even"}:
        raise SystemExit("Each --load needs a file name of its own, which is that of its result; not popular or even.")
    if there := [path for name in (*steps, *loads) if (path := Path(given.out, f"{name}.csv")).exists()]:
        raise SystemExit(f"{there[0]} is there already, and what was measured isn't overwritten: name another --out.")
    check_numbers(given, steps)
    return Asked(steps, loads, {name: 0.0 if name == "even" else given.spread for name in (*steps, *loads)})


def check_numbers(given: argparse.Namespace, steps: dict[str, list[Step]]) -> None:
    """End the program if a number is out of its range."""
    if not 0 <= given.spread < inf:
        raise SystemExit(f"--spread is {given.spread:g}; allowed are numbers from 0 (even) on.")
    if not 0 < given.memory_share < 1:
        raise SystemExit(f"--memory-share is {given.memory_share:g}; allowed are shares between 0 and 1.")
    if over := [step for many in steps.values() for step in many if step.batch > SEQUENCES]:
        raise SystemExit(
            f"A batch of {over[0].batch} is asked for; allowed are up to {SEQUENCES}, vLLM's max_num_seqs."
        )


def check_lengths(wanted: Asked, longest: int) -> None:
    """End the program if a request would be longer than the model allows."""
    lengths = [step.context + step.new_tokens + SLACK_TOKENS for steps in wanted.steps.values() for step in steps]
    lengths += [call.prompt_tokens + call.output_tokens for calls in wanted.loads.values() for call in calls]
    if max(lengths) > longest:
        raise SystemExit(
            f"{max(lengths)} tokens a sequence are asked for ({SLACK_TOKENS} of them what a step needs beside its "
            f"context); the model allows {longest}."
        )


def count_experts(engine: Engine, spread: float) -> None:
    """Say how many experts a layer batches really choose, of the tokens that they really decode."""
    experts, top_k = engine.config["num_experts"], engine.config["num_experts_per_tok"]
    expected = distinct_by_law(experts, top_k, spread, COUNTED_BATCH)
    chosen = engine.distinct(decoded(engine, COUNTED_BATCH, COUNTED_STEPS), COUNTED_BATCH)
    found = f"{chosen:.1f}" if chosen else "uncounted"
    say(f"experts a layer that a batch of {COUNTED_BATCH} chooses, of {experts}: {found}; by the law {expected:.1f}")


def measure_steps(engine: Engine, name: str, steps: list[Step], out: Path) -> None:
    """Measure steps, each written once it is; those that the KV cache has no room for are left out, and said."""
    meter = Meter()
    with Path(out, f"{name}.csv").open("w", encoding="utf-8") as file:
        write_row(file, STEP_COLUMNS)
        for step in steps:
            if (needed := room_of(step)) > engine.room_tokens:
                asked_for = ",".join(map(str, step))
                say(f"{name}: {asked_for}: left out: {needed} tokens in a KV cache of {engine.room_tokens}")
                continue
            timed = measured(engine, step, meter)
            write_row(file, timed.row())
            say(f"{name}: {','.join(timed.row())}")


def serve_load(engine: Engine, name: str, calls: list[Call], out: Path) -> None:
    """Serve a load, and write it."""
    served(engine, calls[:WARMING])
    rows = [one.row() for one in served(engine, calls)]
    with Path(out, f"{name}.csv").open("w", encoding="utf-8") as file:
        for row in (LOAD_COLUMNS, *rows):
            write_row(file, row)
    say(f"{name}: {len(rows)} requests served")


def main() -> None:
    """Measure all that is asked for."""
    given = options()
    wanted, config = asked(given), config_of(given.config)
    check_lengths(wanted, config["max_position_embeddings"])
    check_memory(config, given.memory_share)
    given.out.mkdir(parents=True, exist_ok=True)
    worn = next(iter(wanted.spreads.values()))
    with started(config, worn, Settings(given.memory_share, given.eager, given.seed)) as engine:
        say(f"room for {engine.room_tokens} tokens of KV cache")
        for index, (name, spread) in enumerate(wanted.spreads.items()):
            if spread != worn:
                engine.dress(spread)
            if spread != worn or not index:
                count_experts(engine, spread)
            worn = spread
            if name in wanted.steps:
                measure_steps(engine, name, wanted.steps[name], given.out)
            else:
                serve_load(engine, name, wanted.loads[name], given.out)


def say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
