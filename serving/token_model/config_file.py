"""The `config.json` of a token model, in a folder or of the hub."""

import contextlib
import json
import os
import socket
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from serving.usage_error import UsageError

# How long the hub may take to accept a connection.
HUB_S = 5.0


def context_of(token_model: str) -> int:
    """Return the context, in tokens, of a model in Hugging Face format. Raise UsageError if there is none."""
    try:
        config = json.loads(config_file(token_model).read_text(encoding="utf-8"))
        return int((config.get("text_config") or config).get("max_position_embeddings", 2**31))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _refused(token_model, error) from error


def config_file(token_model: str) -> Path:
    """Return the `config.json` of a model in a folder, or of the hub. Raise UsageError if there is no such model."""
    if Path(token_model).is_dir():
        return Path(token_model) / "config.json"
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _of_hub(token_model, "config.json")
    except LocalEntryNotFoundError as error:
        raise _refused(token_model, f"its cache does not have it, and {hub()} does not answer") from error
    except (OSError, ValueError) as error:
        raise _refused(token_model, error) from error


def folder_with(token_model: str, names: Sequence[str]) -> Path:
    """Return the folder of a model, in which the first of some files is that it has, fetched from the hub if need be.
    Raise UsageError if there is no such model; it may have none of the files."""
    folder = config_file(token_model).parent
    if Path(token_model).is_dir() or any((folder / name).is_file() for name in names):
        return folder
    for name in names:
        # In a repository without a file the next one is looked for; where the hub doesn't answer there is none.
        with contextlib.suppress(OSError, ValueError):
            return _of_hub(token_model, name).parent
    return folder


def _of_hub(token_model: str, name: str) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(token_model, name, local_files_only=not hub_found()))


def _refused(token_model: str, why: object) -> UsageError:
    return UsageError(
        f"`token_model` is {token_model!r}: it must be a folder with a model in Hugging Face format, or the name of "
        f"one that the hub or its cache has ({why}).",
        "token_model",
    )


def hub() -> str:
    """Return the address of the hub."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


@cache
def hub_found() -> bool:
    """Tell whether the hub can be reached: where it can't, its own client goes on trying for half a minute."""
    if getproxies().keys() & {"http", "https", "all"}:
        return True
    address = urlsplit(hub())
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname, port), HUB_S).close()
    except OSError:
        return False
    return True
