"""`foreserve ...`: each command's arguments, and what ends it. Heavy imports wait until a command needs them."""

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import sys
from pathlib import Path

from device_model.spec import SpecError
from serving.scenario import Scenario, ScenarioError, load_scenario

HELP = {
    "system": "kind of system to emulate, a file in device_model/systems",
    "hardware": "its hardware, a file in device_model/specs/hardware",
    "model": "the model it serves, a file in device_model/specs/models",
    "residency": "what HB holds of the experts: analytic (as a law expects), or trace (a real cache, real routes)",
    "devices": "emulated devices",
    "speed": "emulated seconds per real second: 1 is real time, 0.1 ten times slower",
    "token_model": "model that makes the text, in Hugging Face format: a folder or a repository's name",
    "token_ahead": "tokens that vLLM may be ahead of a device, per request",
    "max_model_len": "longest context in tokens, if the models and the device can hold it",
    "max_num_seqs": "most sequences in a device's batch",
    "max_num_batched_tokens": "most tokens in one step of a device",
    "max_queue": "most unfinished requests before clients are told to come back later",
    "host": "address to listen on",
    "http_port": "port of the OpenAI HTTP API and /metrics (0: any free one)",
    "grpc_port": "port of the gRPC API (0: any free one)",
    "api_keys": "key that clients must show; may be given more than once",
}


MOST = 1_000_000  # of whatever the command line counts


def main() -> None:
    """The entry point of the `foreserve` command."""
    logging.basicConfig(level=logging.WARNING, format="foreserve: %(message)s")
    args = make_parser().parse_args()
    try:
        code: int = args.run(args)
    except (ScenarioError, SpecError) as error:
        print(f"foreserve {args.command}: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.exit(code)


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(prog="foreserve", description="Load-test the MoE accelerator that you don't have.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="emulate an accelerator behind OpenAI's API, over HTTP and gRPC")
    add_scenario(serve)
    serve.add_argument("--ready-file", type=Path, metavar="FILE", help="write the addresses there, as JSON, when ready")
    serve.add_argument("--step-log", type=Path, metavar="FILE", help="write a line of JSON there for each step")
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
    bench.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    bench.set_defaults(run=run_bench)
    call = commands.add_parser("call", help="call a gRPC method, found by reflection, with a JSON request")
    call.add_argument("target", metavar="HOST:PORT")
    call.add_argument("method", metavar="SERVICE/METHOD", help="for example foreserve.v1.OpenAI/ListModels")
    call.add_argument("request", nargs="?", default="{}", metavar="JSON")
    call.add_argument("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="(default: OPENAI_API_KEY)")
    call.set_defaults(run=run_call)
    add_device_model_commands(commands)
    add_training(commands.add_parser("train-bundled", help="train the bundled token model afresh, on a CPU"))
    add_model_commands(commands.add_parser("model", help="what the emulator knows of models"))
    return parser


def add_device_model_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`foreserve validate` and `foreserve calibrate`."""
    validate = commands.add_parser("validate", help="what the device model predicts, beside what the papers print")
    validate.add_argument("--system", choices=("elmoe3d",), default="elmoe3d", help="whose paper (default: elmoe3d)")
    validate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of its Table 3")
    validate.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    validate.add_argument("--plots", type=Path, metavar="DIR", help="draw them there too, as PNG files")
    validate.set_defaults(run=run_validate)
    explain = commands.add_parser("explain", help="which operator of a step runs where, why, and what it costs")
    for name, default in (("system", "elmoe3d"), ("hardware", "elmoe3d-8gb"), ("model", "qwen3-30b-a3b")):
        explain.add_argument(f"--{name}", default=default, metavar="NAME", help=f"{HELP[name]} (default: {default})")
    explain.add_argument("--draft", metavar="NAME", help="draft scheme, a file in device_model/drafts (default: none)")
    explain.add_argument("--batch", type=positive, default=1, metavar="N", help="sequences that decode (default: 1)")
    explain.add_argument("--context", type=positive, default=1024, metavar="N", help="tokens of each (default: 1024)")
    explain.add_argument("--depth", type=positive, metavar="N", help="draft depth (default: the calibrated one)")
    explain.set_defaults(run=run_explain)
    calibrate = commands.add_parser("calibrate", help="fit what no paper gives to the cells of a table")
    calibrate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of Table 3")
    calibrate.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: specs/calibration)")
    calibrate.add_argument("--date", metavar="YYYY-MM-DD", help="the date to write down (default: today)")
    calibrate.set_defaults(run=run_calibrate)
    add_speculate(commands.add_parser("speculate", help="measure how a checkpoint's self-drafts are accepted"))


def add_speculate(speculate: argparse.ArgumentParser) -> None:
    """`foreserve speculate`."""
    speculate.add_argument(
        "--model", type=Path, metavar="DIR", help="a Qwen3-MoE checkpoint (default: the bundled one)"
    )
    speculate.add_argument("--quick", action="store_true", help="fewer points and shorter answers: a minute")
    speculate.add_argument("--seed", type=int, default=0, metavar="S", help="of prompts and draws (default: 0)")
    speculate.add_argument("--prompts", type=positive, metavar="N", help="held-out prompts (default: 48; quick: 12)")
    speculate.add_argument("--date", metavar="YYYY-MM-DD", help="a date to write down (default: none)")
    speculate.add_argument("--out", type=Path, metavar="DIR", help="write JSON, PNG files and a report there")
    speculate.set_defaults(run=run_speculate)


def add_model_commands(parser: argparse.ArgumentParser) -> None:
    """`foreserve model ...`."""
    commands = parser.add_subparsers(dest="model_command", required=True, metavar="COMMAND")
    add = commands.add_parser("add", help="print the spec of a model, from its config.json in Hugging Face format")
    add.add_argument("config", type=Path, metavar="CONFIG.json")
    add.add_argument("--name", metavar="NAME", help="what to call it (default: the folder that the file is in)")
    add.set_defaults(run=run_model_add)


def add_training(parser: argparse.ArgumentParser) -> None:
    """`foreserve train-bundled`."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=positive, metavar="M", help="how long to train (default: 45)")
    length.add_argument("--steps", type=positive, metavar="N", help="how many steps to train instead")
    length.add_argument("--card", action="store_true", help="train nothing: measure the model, and write its card anew")
    parser.add_argument("--out", type=Path, metavar="DIR", help="its folder (default: serving/bundled/foreserve-moe)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the corpus and the weights (default: 0)")
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="(default: 2)")
    parser.set_defaults(run=run_train_bundled)


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """The scenario file, and an option for each of its keys."""
    parser.add_argument(
        "scenario", nargs="?", type=Path, metavar="SCENARIO.toml", help="a TOML file with the keys below"
    )
    for field in dataclasses.fields(Scenario):
        option = "--api-key" if field.name == "api_keys" else f"--{field.name.replace('_', '-')}"
        kind = type(field.default)
        shown = f"{HELP[field.name]}" + (
            f" (default: {field.default})" if field.name not in ("api_keys", "token_model") else ""
        )
        if kind is tuple:
            parser.add_argument(option, dest=field.name, action="append", metavar="KEY", help=shown)
        else:
            parser.add_argument(option, dest=field.name, type=kind, metavar=kind.__name__.upper(), help=shown)


def scenario_of(args: argparse.Namespace) -> Scenario:
    """The scenario that the command line asks for; raises `ScenarioError`."""
    scenario = load_scenario(args.scenario) if args.scenario else Scenario()
    options = {field.name: getattr(args, field.name) for field in dataclasses.fields(Scenario)}
    if options["api_keys"]:
        options["api_keys"] = tuple(options["api_keys"])
    return scenario.with_options(options)


def run_serve(args: argparse.Namespace) -> int:
    """`foreserve serve`: until Ctrl-C."""
    import uvloop

    from serving.serve import prepare, serve
    from serving.step_log import StepLog

    with contextlib.ExitStack() as stack:
        bringup = prepare(scenario_of(args))
        stack.callback(bringup.sock.close)
        if args.step_log:
            bringup.step_log = stack.enter_context(StepLog(args.step_log))
        uvloop.run(serve(bringup, args.ready_file))
    return 0


def run_load(args: argparse.Namespace) -> int:
    """`foreserve load`."""
    from serving.load.run import main as load

    return int(load(args))


def run_demo(args: argparse.Namespace) -> int:
    """`foreserve demo`."""
    from serving.demo import demo

    return int(demo(scenario_of(args)))


def run_bench(args: argparse.Namespace) -> int:
    """`foreserve bench`."""
    from serving.bench import bench, print_table

    results = bench(args.quick)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results)
    return 0


def run_call(args: argparse.Namespace) -> int:
    """`foreserve call`."""
    from serving.api.call import call

    return int(call(args.target, args.method, args.request, args.api_key))


def run_validate(args: argparse.Namespace) -> int:
    """`foreserve validate`."""
    from serving.validate import validate

    return validate(args.reference, args.json, args.plots)


def positive(text: str) -> int:
    """A whole number from 1 on, from the command line."""
    if not text.isdigit() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a whole number from 1 to {MOST}")
    return int(text)


def run_explain(args: argparse.Namespace) -> int:
    """`foreserve explain`."""
    from serving.explain import explain

    return explain((args.system, args.hardware, args.model), args.draft, args.batch, args.context, args.depth)


def run_calibrate(args: argparse.Namespace) -> int:
    """`foreserve calibrate`."""
    from serving.calibrate import run

    return run(args.reference, args.out, args.date)


def run_speculate(args: argparse.Namespace) -> int:
    """`foreserve speculate`."""
    from serving.selfspec.command import BUNDLED, Options, speculate

    prompts = args.prompts or (12 if args.quick else 48)
    new_tokens = 24 if args.quick else 48
    return speculate(Options(args.model or BUNDLED, args.quick, args.seed, prompts, new_tokens, args.out, args.date))


def run_train_bundled(args: argparse.Namespace) -> int:
    """`foreserve train-bundled`."""
    from serving.training.command import describe_bundled, train_bundled

    if args.card:
        return describe_bundled(args.out)
    return train_bundled(args.out, (args.minutes, args.steps), args.seed, args.threads)


def run_model_add(args: argparse.Namespace) -> int:
    """`foreserve model add`."""
    from serving.model_add import model_add

    return model_add(args.config, args.name)


if __name__ == "__main__":
    main()
