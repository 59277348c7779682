"""`foreserve validate`, `explain`, `calibrate` and `model`: what is asked of the device model alone."""

import argparse
from pathlib import Path

from serving.scenario.options import HELP, KEYS, positive


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add them."""
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
    explain.add_argument(
        "--acceptance", choices=KEYS["acceptance"].choices, default="published", help=f"{HELP['acceptance']}"
    )
    explain.set_defaults(run=run_explain)
    calibrate = commands.add_parser("calibrate", help="fit what no paper gives to the cells of a table")
    calibrate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of Table 3")
    calibrate.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: specs/calibration)")
    calibrate.add_argument("--date", metavar="YYYY-MM-DD", help="the date to write down (default: today)")
    calibrate.set_defaults(run=run_calibrate)
    _add_model(commands.add_parser("model", help="what the emulator knows of models"))


def _add_model(parser: argparse.ArgumentParser) -> None:
    """`foreserve model ...`."""
    commands = parser.add_subparsers(dest="model_command", required=True, metavar="COMMAND")
    add = commands.add_parser("add", help="print the spec of a model, from its config.json in Hugging Face format")
    add.add_argument("config", type=Path, metavar="CONFIG.json")
    add.add_argument("--name", metavar="NAME", help="what to call it (default: the folder that the file is in)")
    add.set_defaults(run=run_model_add)


def run_validate(args: argparse.Namespace) -> int:
    """`foreserve validate`."""
    from serving.reports.validate import validate

    return validate(args.reference, args.json, args.plots)


def run_explain(args: argparse.Namespace) -> int:
    """`foreserve explain`."""
    from serving.reports.explain import Drafts, explain

    drafts = Drafts(args.draft, args.depth, args.acceptance)
    return explain((args.system, args.hardware, args.model), drafts, args.batch, args.context)


def run_calibrate(args: argparse.Namespace) -> int:
    """`foreserve calibrate`."""
    from serving.reports.calibrate import run

    return run(args.reference, args.out, args.date)


def run_model_add(args: argparse.Namespace) -> int:
    """`foreserve model add`."""
    from serving.reports.model_import import model_add

    return model_add(args.config, args.name)
