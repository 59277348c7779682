"""A server's announcements, on stdout and in files: one that cannot be made does not end the server."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from serving.process.guard import identity, remove_known
from serving.process.output_folder import behind_links, draft_of, is_replaceable
from serving.process.run_folder import gone_with_run
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import served_name
from serving.usage_error import UsageError

log = logging.getLogger("foreserve")

# A disk that is full, or broken, or a pipe without a reader: no mistake in the command, so the server goes on.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
UNREAD = (errno.ENXIO, errno.EPIPE, errno.EAGAIN)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running emulation; `ready_s` are real seconds, and `lost` gets the reason if Ray is lost."""

    scenario: Scenario
    http_port: int
    grpc_port: int
    ready_s: float
    realtime: bool
    keyed: bool
    lost: asyncio.Future[str]


def tell(line: str) -> None:
    """Print a line. If stdout is closed, or its disk full, drop this line and all later ones."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_folder(path: Path | None, option: str) -> None:
    """Raise UsageError, before anything is started, if no file can be written at `path`."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{option} {path} cannot be written: it is a folder.")
    if path.exists() and not path.is_file() and os.access(path, os.W_OK):  # a pipe
        return
    if not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written: {path.absolute().parent} is no folder to write in.")


@contextlib.contextmanager
def ready_file(path: Path | None, addresses: Mapping[str, object]) -> Iterator[None]:
    """Keep the addresses as JSON in a file, if there is a path, for as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        if path is not None:
            stack.enter_context(written(path, json.dumps(addresses), "--ready-file"))
        yield


@contextlib.contextmanager
def written(path: Path, text: str, option: str) -> Iterator[None]:
    """Keep `text` in a file for as long as the context lasts; the file is whole from its first moment on.

    Raise OSError if it cannot be written, unless the disk is full or broken, or nobody reads the pipe that is there:
    then log that `option` has no file.
    """
    path, ours = behind_links(path), ""
    is_file = is_replaceable(path)  # A pipe is its reader's.
    try:
        with draft_of(path) if is_file else _pipe(path) as file:
            file.write(text.encode())
        if is_file:
            ours = identity(str(path))
            gone_with_run(path)
    except OSError as error:
        if error.errno not in (*FULL, *UNREAD):
            raise
        why = "nobody reads the pipe" if error.errno in UNREAD else error.strerror
        log.error("%s %s is not written: %s. The server is up without it.", option, path, why)
    try:
        yield
    finally:
        if ours:
            remove_known(str(path), ours)


def _pipe(path: Path) -> BinaryIO:
    """Open a pipe without waiting for its reader, as a server that is ready has others to serve. Raise OSError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), "wb")


def greeting(up: RunningServer) -> str:
    """Return the text for a user whose server is ready: its addresses, and lines to paste."""
    scenario = up.scenario
    host = f"[{scenario.host}]" if ":" in scenario.host else scenario.host
    s, curl, call = ("s", "curl --cacert FILE", "call --ca-file FILE") if scenario.encrypted else ("", "curl", "call")
    http, grpc = f"http{s}://{host}:{up.http_port}", f"grpc{s}://{host}:{up.grpc_port}"
    header = "-H 'Content-Type: application/json'"
    question = {"model": served_name(scenario), "max_tokens": 32, "messages": [{"role": "user", "content": "Hello!"}]}
    streamed = json.dumps(question | {"stream": True})
    key = ' -H "Authorization: Bearer $OPENAI_API_KEY"' if up.keyed else ""
    priority = "real-time priority" if up.realtime else "no real-time priority (not permitted here): expect more jitter"
    return f"""
Ready in {up.ready_s:.1f} s; devices run with {priority}.
  HTTP     {http}/v1
  gRPC     {grpc}
  Live     {http}/ui  (metrics: /metrics)

Try it:
  {curl} -N {http}/v1/chat/completions {header}{key} -d '{streamed}'
  {_command()} {call} {grpc} foreserve.v1.OpenAI/StreamChatCompletion '{json.dumps(question)}'

Ctrl-C ends it."""


def _command() -> str:
    """Return how this program was called, for a line to paste: by its name, or as a module."""
    return f"{sys.executable} -m serving.cli" if sys.argv[0].endswith(".py") else sys.argv[0]
