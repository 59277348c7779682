"""The arguments of commands that call a server: a key, whom they trust, and what they show of themselves."""

import argparse
import os
from typing import Any

from serving.cli.parser import name_otherwise
from serving.scenario.options import file_name
from serving.security.client_trust import Trust

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


def trust_of(args: argparse.Namespace) -> Trust:
    """Return the trust that the command line asks for."""
    return Trust(args.ca_file or "", args.client_cert or "", args.client_key or "")
