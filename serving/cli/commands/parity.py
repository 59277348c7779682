"""`foreserve parity`: compare a live run of a workload with virtual time."""

import argparse
import math
import sys
from typing import TYPE_CHECKING

from serving.cli.arguments.report import add_json, tell
from serving.cli.named_options import naming_options
from serving.scenario.options import HELP, amount, named_path, natural, positive
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_file import load_scenario, located_in
from serving.usage_error import UsageError

if TYPE_CHECKING:
    from serving.parity.run import Parity

DURATION_S = 60.0

ABOUT = """Serve a workload live (a real server, the real load client) and in virtual time, and print the difference.

Each request's TTFT and TPOT are told by four: the client; the device, as it released tokens; virtual time, had
requests arrived as they did live ("as arrived"); and virtual time with the arrivals of the workload ("as planned"),
which is what a study would say. Live and virtual time agree
- if device and client are within 3 % of the mean as planned, and 8 % of the p99 (or within a millisecond);
- and if devices make the same steps as arrived, in mode, batch and new tokens. Where news of an arrival came a step
  too late live, steps are compared with that arrival a step later.
Where arrivals are not equal, figures also differ by chance, the less, the more requests there are. How much is found
by virtual time, when all requests come as late as some did live ("if late", "by chance").

The server has ports of its own, and turns nobody away: early rejection, the queue's limit and those of keys are off.
Exit code 0: they agree. 1: they differ, or there is no telling. 2: wrong arguments or files."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    parity = commands.add_parser(
        "parity",
        help="serve a workload live and in virtual time, and print the difference",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parity.add_argument("scenario", type=named_path, metavar="SCENARIO.toml", help="as of `foreserve serve`")
    parity.add_argument("workload", type=named_path, metavar="WORKLOAD.toml", help="as of `foreserve load --workload`")
    parity.add_argument("--requests", type=positive, metavar="N", help="no more than so many")
    what = (
        f"stop sending after so many emulated seconds (if no --requests: the file's, or {DURATION_S:g} if that's less)"
    )
    parity.add_argument("--duration", type=amount("seconds"), metavar="S", help=what)
    parity.add_argument("--seed", type=natural, metavar="N", help="of the workload (default: the file's)")
    parity.add_argument("--speed", type=float, metavar="FLOAT", help=f"{HELP['speed']} (default: the scenario's)")
    parity.add_argument("--token-model", metavar="STR", help=f"{HELP['token_model']} (default: the scenario's)")
    endpoint = {"choices": ("completions", "chat"), "default": "completions"}
    parity.add_argument("--endpoint", **endpoint, help="what is asked for (default: completions)")  # type: ignore[arg-type]
    parity.add_argument("--grpc", action="store_true", help="send over gRPC rather than HTTP")
    add_json(parity)
    parity.add_argument("--csv", type=named_path, metavar="FILE", help="write a line for each request there")
    parity.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve parity`; return its exit code. Raise UsageError and CommandFailed."""
    from serving.cli.announcements import check_folder

    check_folder(args.csv, "--csv")
    return _told(args, _parity(args, scenario_of(args)))


def scenario_of(args: argparse.Namespace) -> Scenario:
    """Return the scenario, with the command line's values in place of its own. Raise ScenarioError."""
    from serving.parity.run import comparable

    asked = {"speed": args.speed, "token_model": args.token_model}
    options = {name: value for name, value in asked.items() if value is not None}
    with naming_options(options):
        scenario = load_scenario(args.scenario).with_options(options)
    with located_in(args.scenario):
        return comparable(scenario)


def _parity(args: argparse.Namespace, scenario: Scenario) -> "Parity":
    from serving.load.options import LoadOptions
    from serving.parity.run import parity
    from serving.process.process_priority import settle

    load = LoadOptions(
        workload=args.workload,
        num_requests=args.requests,
        duration_s=_duration_s(args),
        seed=args.seed,
        endpoint=args.endpoint,
        told=True,
    )
    settle()
    return parity(scenario, load, args.grpc, say=lambda line: print(line, file=sys.stderr, flush=True))


def _duration_s(args: argparse.Namespace) -> float | None:
    """Return for how many seconds requests come; None: as the file says, up to `--requests`. Raise WorkloadError."""
    from serving.workload.spec import workload_of
    from serving.workload.table import WorkloadTable

    if args.requests or args.duration:
        duration_s: float | None = args.duration
        return duration_s
    return min(DURATION_S, workload_of(WorkloadTable.load(args.workload)).duration_s or math.inf)


def _told(args: argparse.Namespace, found: "Parity") -> int:
    from serving.parity.report import show, to_json, write_csv

    if args.csv:
        try:
            write_csv(found, args.csv)
        except OSError as error:
            raise UsageError(f"--csv {args.csv} cannot be written: {error.strerror}.") from error
    tell(args.json, found, to_json, show)
    return 0 if found.agree else 1
