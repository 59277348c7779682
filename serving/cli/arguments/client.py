"""The arguments of commands that call a server: a key, whom they trust, and what they show of themselves."""

import argparse
import os
from typing import Any

from serving.cli.parser import name_otherwise
from serving.scenario.options import file_name
from serving.security.client_trust import Trust
from serving.security.header_text import fits_header
from serving.usage_error import UsageError

# What `serve` and load generators of others have for what is one `--url` here.
PARTS_OF_URL = ("--port", "--http-port", "--grpc-port", "--host", "--base-url", "--address")


def add_client(parser: Any) -> None:
    """Add the options of a command that calls a server, to a parser or a group of its options."""
    add = parser.add_argument
    add("--api-key", default=os.environ.get("OPENAI_API_KEY"), help="bearer token (default: OPENAI_API_KEY)")
    add("--ca-file", type=file_name, metavar="FILE", help="trust servers with TLS by this (PEM)")
    add("--client-cert", type=file_name, metavar="FILE", help="certificate to show them (PEM)")
    add("--client-key", type=file_name, metavar="FILE", help="its private key, if it is in another file")


def name_url(parser: argparse.ArgumentParser) -> None:
    """Let `--url` be the hint on an option that is a part of it elsewhere."""
    name_otherwise(parser, "--url", PARTS_OF_URL)


def key_of(args: argparse.Namespace) -> str | None:
    """Return the key that the command line, or the environment, has. Raise UsageError for one that can't be sent."""
    key: str | None = args.api_key or None
    if key and not fits_header(key):
        raise UsageError("--api-key, or OPENAI_API_KEY, must be printable ASCII.")
    return key


def trust_of(args: argparse.Namespace, address: str) -> Trust:
    """Return the trust that the command line asks for. Raise UsageError if nothing at `address`, a server's, has a use
    for it."""
    files = {"--ca-file": args.ca_file, "--client-cert": args.client_cert, "--client-key": args.client_key}
    named = next((f"{option} {file}" for option, file in files.items() if file), "")
    if named and address.startswith(("http://", "grpc://")):
        scheme = address.partition(":")[0]
        raise UsageError(f"{named} has no use with {address}, which is not encrypted; with TLS it is {scheme}s://.")
    if args.client_key and not args.client_cert:
        raise UsageError(f"{named} is no use without a --client-cert, whose key it is.")
    return Trust(args.ca_file or "", args.client_cert or "", args.client_key or "")
