"""`foreserve top`: watch a running emulation in the terminal."""

import argparse

from serving.cli.client_arguments import add_client, trust_of
from serving.scenario.options import amount

INTERVAL_S = 1.0
URL = "http://127.0.0.1:8000"


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    top = commands.add_parser("top", help="watch a running emulation in the terminal")
    top.add_argument("url", nargs="?", default=URL, metavar="URL", help=f"of its HTTP port (default: {URL})")
    add_client(top)
    interval = amount("seconds", 0.1, 3600)
    top.add_argument("--interval", type=interval, default=INTERVAL_S, metavar="S", help="seconds between two looks")
    top.add_argument("--once", action="store_true", help="print what goes on within one such interval, and end")
    top.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve top`; return its exit code."""
    from serving.cli.top_view import top

    top(args.url.rstrip("/").removesuffix("/v1"), args.interval, args.once, args.api_key, trust_of(args))
    return 0
