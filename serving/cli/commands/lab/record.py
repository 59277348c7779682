"""`foreserve record`: record a token model's answers, for requests that it has no time for."""

import argparse
from pathlib import Path

from serving.cli.arguments.report import add_token_model
from serving.recordings.recording import FILE
from serving.scenario.options import named_path, positive


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    record = commands.add_parser("record", help="record text of a token model, for `serve --text auto` or `recorded`")
    add_token_model(record)
    record.add_argument(
        "--out", type=named_path, metavar="FILE", help=f"write them there (default: {FILE} in the model's folder)"
    )
    record.add_argument("--prompts", type=positive, default=96, metavar="N", help="of each topic (default: 96)")
    record.add_argument(
        "--prompts-file",
        type=named_path,
        metavar="FILE",
        help="ask these: one a line, or .jsonl with `prompt` and `topic`",
    )
    record.add_argument("--tokens", type=positive, default=512, metavar="N", help="of an answer at most (default: 512)")
    record.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and sampling (default: 0)")
    record.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve record`; return its exit code."""
    from serving.lab.recorded_text import Asked, record

    folder = Path(args.token_model)
    out = args.out or (folder if folder.is_dir() else Path()) / FILE
    return record(args.token_model, Asked(args.prompts, args.tokens, args.seed, args.prompts_file), out)
