"""`foreserve top`: watch a running emulation in the terminal."""

import argparse

from serving.cli.arguments.client import add_client, key_of, name_url, trust_of
from serving.scenario.options import amount
from serving.usage_error import UsageError

INTERVAL_S = 1.0
URL = "http://127.0.0.1:8000"


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    top = commands.add_parser("top", help="watch a running emulation in the terminal")
    top.add_argument("address", nargs="?", metavar="ADDRESS", help=f"of its HTTP port: a URL, or HOST:PORT ({URL})")
    top.add_argument("--url", metavar="ADDRESS", help="the same, as other commands have it")
    name_url(top)
    add_client(top)
    interval = amount("seconds", 0.1, 3600)
    top.add_argument("--interval", type=interval, default=INTERVAL_S, metavar="S", help="seconds between two looks")
    top.add_argument("--once", action="store_true", help="print what goes on within one such interval, and end")
    top.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve top`; return its exit code. Raise UsageError."""
    from serving.cli.top.view import top
    from serving.telemetry.status_client import base_of

    if args.address and args.url:
        raise UsageError(f"Name one server: {args.address}, or --url {args.url}.")
    base = base_of(args.address or args.url or URL)
    top(base, args.interval, args.once, key_of(args), trust_of(args, base))
    return 0
