"""`foreserve call`: call a gRPC method, found by reflection, with a JSON request."""

import argparse
import re

from serving.cli.arguments.client import add_client, key_of, trust_of
from serving.security.header_text import fits_header


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    call = commands.add_parser("call", help="call a gRPC method, found by reflection, with a JSON request")
    call.add_argument("target", metavar="HOST:PORT", help="grpcs://HOST:PORT, or --ca-file, for TLS")
    call.add_argument("method", metavar="SERVICE/METHOD", help="for example foreserve.v1.OpenAI/ListModels")
    call.add_argument("request", nargs="?", default="{}", metavar="JSON")
    call.add_argument(
        *("-H", "--metadata"),
        type=_metadata,
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="metadata, for example 'x-foreserve-slo: interactive'; may be given more than once",
    )
    add_client(call)
    call.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve call`; return its exit code. Raise UsageError."""
    from serving.cli.grpc_call import call

    key = key_of(args)
    metadata = [("authorization", f"Bearer {key}")] if key else []
    call(args.target, trust_of(args, args.target), args.method, args.request, (*metadata, *args.metadata))
    return 0


def _metadata(text: str) -> tuple[str, str | bytes]:
    """Parse `NAME: VALUE` into an entry of gRPC's metadata, which has bytes where a name ends in -bin."""
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or not fits_header(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is NAME: VALUE in printable ASCII")
    name = name.lower()
    return name, value.encode() if name.endswith("-bin") else value
