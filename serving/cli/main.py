"""The `foreserve` command: parses arguments, runs a command, and turns errors into exit codes.

Heavy imports wait until a command needs them.
"""

import argparse
import errno
import logging
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from device_model.specs.spec import DeviceError
from device_model.specs.spec_file import missing_own_folder
from serving.cli import commands
from serving.cli.parser import Parser
from serving.process.hidden_arguments import hide
from serving.usage_error import CommandFailed, UsageError

TERMINATED = 128 + signal.SIGTERM
# It makes the folder where there is none.
MAKES_SPECS = "model"
OURS = ("serving", "device_model")


class Terminated(KeyboardInterrupt):
    """SIGTERM: what Ctrl-C ends in order, it does too."""


def main() -> None:
    """Run the `foreserve` command, and exit with its code."""
    logging.basicConfig(level=logging.WARNING, format="foreserve: %(message)s")
    # A level of its own: a package of vLLM's silences the root logger when it is imported.
    logging.getLogger("foreserve").setLevel(logging.WARNING)
    given = sys.argv[1:]
    hide()
    # Children of this process are other programs, which know nothing of its channels. gRPC asks when it is imported.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    args = parse(given)
    signal.signal(signal.SIGTERM, _terminate)
    _warn_of_specs(args.command)
    try:
        code: int = args.run(args)
        if sys.stdout is not None:  # as it is where it was closed
            sys.stdout.flush()
    except (UsageError, DeviceError, CommandFailed) as error:
        print(f"foreserve {args.command}: {error}", file=sys.stderr)
        code = 1 if isinstance(error, CommandFailed) else 2
    except ModuleNotFoundError as error:
        need = need_of(args.command, error)
        if need is None:
            raise
        print(f"foreserve: {need}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt as ending:
        code = TERMINATED if isinstance(ending, Terminated) else 130
    except OSError as error:
        code = _unwritten(args.command, error)
    sys.exit(code)


def _unwritten(command: str, error: OSError) -> int:
    """Return the exit code where our output can't be written: its reader is gone, or its disk full. Raise any other
    error."""
    if not isinstance(error, BrokenPipeError):
        if error.errno != errno.ENOSPC:
            raise error
        print(f"foreserve {command}: what it has to say can't be written: {error.strerror}.", file=sys.stderr)
    # The rest must not be written when Python ends, either.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141 if isinstance(error, BrokenPipeError) else 1


def _warn_of_specs(command: str) -> None:
    """Say that a user's own specs cannot be found, also where shipped ones do and nothing else would tell."""
    missing = missing_own_folder()
    if missing and command != MAKES_SPECS:
        print(f"foreserve: {missing} Only shipped specs are found.", file=sys.stderr)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    # Whoever sends it to a process and to its group sends it twice, as `timeout` does: one end is enough.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def parse(given: list[str]) -> argparse.Namespace:
    """Return the parsed arguments. What stands after a `--` of its own is for vLLM's front end, as `vllm_options`."""
    parser = make_parser()
    if "--" not in given:
        return parser.parse_args(given)
    place = given.index("--")
    args = parser.parse_args(given[:place])
    if not hasattr(args, "vllm_options"):
        parser.error(f"`foreserve {args.command}` takes nothing after --: it has no front end of vLLM's")
    args.vllm_options = [*(args.vllm_options or ()), *given[place + 1 :]]
    return args


def need_of(command: str, error: ModuleNotFoundError) -> str | None:
    """Return a sentence on what to install for a command that lacks a module, as in a light install (`pip install .`);
    None if the module is our own."""
    missing = (error.name or "").partition(".")[0]
    if not missing or missing in OURS:
        return None
    return (
        f"`foreserve {command}` needs {missing}, which is not installed. Run `make venv` in foreserve's repository: it "
        "installs vLLM and torch for this machine."
    )


class TellVersion(argparse.Action):
    """Tells the version. To import what finds it takes some 20 ms, for which only who asks is to wait."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"foreserve {version('foreserve')}")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    parser = Parser(prog="foreserve", description="Load-test the MoE accelerator that you don't have.")
    parser.add_argument("--version", action=TellVersion, nargs=0, help="show the version, and exit")
    added = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in commands.found():
        module.add(added)
    return parser


if __name__ == "__main__":
    main()
