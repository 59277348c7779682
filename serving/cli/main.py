"""`foreserve ...`: each command's arguments, and what ends it. Heavy imports wait until a command needs them."""

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from device_model.specs.spec import SpecError
from serving.cli import device_model, policies, study, token_model, top_command, topics
from serving.cli import parity as parity_command
from serving.cli import trace as step_trace_command
from serving.cli.needs import need_of
from serving.edge import observation as observing
from serving.process.hidden_arguments import hide
from serving.scenario.options import HELP, KEYS, file_name, option_of
from serving.scenario.scenario import BUNDLED_MODEL, Scenario, ScenarioError
from serving.scenario.scenario_file import load_scenario, located
from serving.security.client_trust import add_arguments as trust_arguments
from serving.security.client_trust import trust_of
from serving.usage_error import UsageError

if TYPE_CHECKING:
    from serving.edge.preflight import Bringup

log = logging.getLogger("foreserve")

TERMINATED = 128 + signal.SIGTERM

SERVE_FILES = {
    "--ready-file": "write the addresses there, as JSON, when ready",
    "--discovery-file": "write them there for Prometheus to find (file_sd), as long as the server is up",
}

SHOWN = (
    "A key on the command line is in the shell's history, and `ps` showed it for a moment: use --api-key-file and "
    "--admin-key-file, or FORESERVE_API_KEYS and FORESERVE_ADMIN_KEY."
)


def main() -> None:
    """The entry point of the `foreserve` command."""
    logging.basicConfig(level=logging.WARNING, format="foreserve: %(message)s")
    # One of its own: a package of vLLM's silences the root's when it is imported.
    logging.getLogger("foreserve").setLevel(logging.WARNING)
    given = sys.argv[1:]
    hide()
    args = make_parser().parse_args(given)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except (UsageError, SpecError) as error:
        print(f"foreserve {args.command}: {error}", file=sys.stderr)
        code = 2
    except ModuleNotFoundError as error:
        need = need_of(args.command, error)
        if need is None:
            raise
        print(f"foreserve: {need}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Whoever read along has seen enough. What is left is not to be written when Python ends, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except SystemExit as ending:
        # Until a server is up, SIGTERM is Ray's, who ends us with the signal's bare number, which says failure.
        if ending.code != signal.SIGTERM:
            raise
        code = TERMINATED
    sys.exit(code)


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(prog="foreserve", description="Load-test the MoE accelerator that you don't have.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="emulate an accelerator behind OpenAI's API, over HTTP and gRPC")
    add_scenario(serve)
    for option, what in SERVE_FILES.items():
        serve.add_argument(option, type=Path, metavar="FILE", help=what)
    observing.add_arguments(serve)
    serve.set_defaults(run=run_serve)

    from serving.load.options import add_arguments

    load = commands.add_parser("load", help="send a load to any OpenAI endpoint and measure it")
    add_arguments(load)
    load.set_defaults(run=run_load)
    demo = commands.add_parser("demo", help="serve, send a bounded load, print what came of it, and end")
    add_scenario(demo)
    demo.set_defaults(run=run_demo)
    bench = commands.add_parser("bench", help="measure how well this machine keeps the emulated pace")
    bench.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    bench.add_argument("--token-model", default=str(BUNDLED_MODEL), metavar="STR", help=HELP["token_model"])
    bench.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    bench.set_defaults(run=run_bench)
    call = commands.add_parser("call", help="call a gRPC method, found by reflection, with a JSON request")
    call.add_argument("target", metavar="HOST:PORT", help="grpcs://HOST:PORT, or --ca-file, for TLS")
    call.add_argument("method", metavar="SERVICE/METHOD", help="for example foreserve.v1.OpenAI/ListModels")
    call.add_argument("request", nargs="?", default="{}", metavar="JSON")
    call.add_argument("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="(default: OPENAI_API_KEY)")
    call.add_argument(
        *("-H", "--metadata"),
        type=metadata_of,
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="metadata, for example 'x-foreserve-slo: interactive'; may be given more than once",
    )
    trust_arguments(call)
    call.set_defaults(run=run_call)
    commands_of = (device_model, token_model, policies, study)
    for others in (*commands_of, topics, top_command, step_trace_command, parity_command):
        others.add(commands)
    return parser


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """The scenario file, and an option for each of its keys."""
    parser.add_argument(
        "scenario", nargs="?", type=Path, metavar="SCENARIO.toml", help="a TOML file with the keys below"
    )
    for field in dataclasses.fields(Scenario):
        kind, key = type(field.default), KEYS[field.name]
        option = option_of(field.name)
        quiet = kind is tuple or key.is_file or field.name == "token_model"
        shown = key.help if quiet else f"{key.help} (default: {field.default})"
        if kind is tuple:
            metavar = key.one.rpartition("_")[2].upper()
            parser.add_argument(option, dest=field.name, action="append", metavar=metavar, help=shown)
        elif kind is bool:
            parser.add_argument(option, dest=field.name, action=argparse.BooleanOptionalAction, help=shown)
        else:
            parse, metavar = (file_name, "FILE") if key.is_file else (kind, kind.__name__.upper())
            parser.add_argument(option, dest=field.name, type=parse, metavar=metavar, help=shown)


def scenario_of(args: argparse.Namespace) -> Scenario:
    """The scenario that the command line asks for; raises `ScenarioError`."""
    scenario = load_scenario(args.scenario) if args.scenario else Scenario()
    options = {field.name: getattr(args, field.name) for field in dataclasses.fields(Scenario)}
    return scenario.with_options({key: tuple(v) if type(v) is list else v for key, v in options.items()})


def prepare_of(args: argparse.Namespace) -> "Bringup":
    """What is to be brought up; raises `ScenarioError`, which names the file if there is one."""
    from serving.edge.preflight import prepare

    scenario = scenario_of(args)
    try:
        return prepare(scenario)
    except ScenarioError as error:
        raise (located(error, args.scenario) if args.scenario else error) from error


def run_serve(args: argparse.Namespace) -> int:
    """`foreserve serve`: until Ctrl-C."""
    import uvloop

    from serving.cli.discovery import check_folder
    from serving.cli.serve import serve
    from serving.cluster.supervision.ray_watch import RayLost
    from serving.process.ending import LOST, end_at_once_when_told

    end_at_once_when_told()
    check_folder(args.ready_file, "--ready-file")
    check_folder(args.discovery_file, "--discovery-file")
    if args.api_keys or args.admin_keys:
        log.warning(SHOWN)
    with contextlib.ExitStack() as stack:
        bringup = prepare_of(args)
        stack.callback(bringup.sock.close)
        args.api_keys = args.admin_keys = None
        bringup.observing = observing.observe(args, stack)
        try:
            uvloop.run(serve(bringup, args.ready_file, args.discovery_file))
        except RayLost:
            return LOST
    return 0


def run_load(args: argparse.Namespace) -> int:
    """`foreserve load`."""
    from serving.load.run import main as load

    return int(load(args))


def run_demo(args: argparse.Namespace) -> int:
    """`foreserve demo`."""
    from serving.cli.demo import demo

    return int(demo(scenario_of(args)))


def run_bench(args: argparse.Namespace) -> int:
    """`foreserve bench`."""
    from serving.bench.command import bench, print_table

    results = bench(args.quick, args.token_model)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results)
    return 0


def run_call(args: argparse.Namespace) -> int:
    """`foreserve call`."""
    from serving.cli.call import call

    metadata = [("authorization", f"Bearer {args.api_key}")] if args.api_key else []
    return int(call(args.target, trust_of(args), args.method, args.request, (*metadata, *args.metadata)))


def metadata_of(text: str) -> tuple[str, str]:
    """NAME: VALUE, as gRPC has metadata."""
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is NAME: VALUE")
    return name.lower(), value


if __name__ == "__main__":
    main()
