"""Keys of clients and of the admin: where they are said, and what they may be. Only their digests are kept.

A key on the command line is to be seen in `ps`; a file and the environment are for whoever may read them.
"""

import hashlib
import logging
import os
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from serving.process.hidden_arguments import MASK
from serving.process.start_memory import Part, overwrite
from serving.scenario.listen_options import ListenOptions
from serving.scenario.scenario_error import ScenarioError
from serving.security.header_text import fits_header

API_KEYS, ADMIN_KEY, VLLM_API_KEY = "FORESERVE_API_KEYS", "FORESERVE_ADMIN_KEY", "VLLM_API_KEY"
"""The variables of the environment that keys come from. vLLM's own counts where no other key is said, as in vLLM."""
NAMES = (API_KEYS, ADMIN_KEY, VLLM_API_KEY)

ALLOWED = "printable ASCII without spaces and commas"
MOST_BYTES = 1 << 20  # of a file of keys

log = logging.getLogger("foreserve")


def digest(key: str) -> bytes:
    """Return a key's digest, which is all that is kept of it, or of a key that is shown. All have one length, which
    tells nothing about the key's. Anything may be shown; a key of ours is ASCII, so nothing else has its digest."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def api_keys(options: ListenOptions) -> tuple[str, ...]:
    """Return the keys of clients, each once, in order: those of the scenario, its file, the environment. Raise
    `ScenarioError`."""
    said = [_checked(key, "An entry of `api_keys`", "api_keys") for key in options.api_keys]
    found = (*said, *_in_file("api_key_file", options.api_key_file), *_in_environment(API_KEYS))
    return tuple(dict.fromkeys(found or _in_environment(VLLM_API_KEY)))


def admin_keys(options: ListenOptions) -> tuple[str, ...]:
    """Return the keys of the admin, of which there may be several while one takes the place of another. Raise
    `ScenarioError`."""
    said = [_checked(key, "An entry of `admin_keys`", "admin_keys") for key in options.admin_keys]
    found = (*said, *_in_file("admin_key_file", options.admin_key_file), *_in_environment(ADMIN_KEY))
    if set(found) & set(api_keys(options)):
        both = "One key is among `api_keys` and the admin's: clients would be admins. They must differ."
        raise ScenarioError(both, "api_keys")
    return tuple(dict.fromkeys(found))


def environment_of(options: ListenOptions) -> dict[str, str]:
    """Return the variables with which a server that we start has the same keys. Raise `ScenarioError`."""
    pairs = ((API_KEYS, api_keys(options)), (ADMIN_KEY, admin_keys(options)))
    return {name: ",".join(keys) for name, keys in pairs if keys}


def forget() -> None:
    """Drop the keys from the environment: neither vLLM nor a process that we start, or fork, is to have them."""
    for name in NAMES:
        os.environ.pop(name, None)
    overwrite(Part.ENVIRON, _masked)


def _masked(variables: list[str]) -> list[str]:
    """Return variables, `NAME=value` each, with a mask as long as the value in the place of each key."""
    named = [each.partition("=") for each in variables]
    return [f"{name}{equals}{MASK * len(value) if name in NAMES else value}" for name, equals, value in named]


def _in_environment(name: str) -> list[str]:
    text = os.environ.get(name)
    if not text:
        return []
    keys = [_checked(key, f"A key in {name}") for key in text.replace(",", " ").split()]
    if not keys:
        raise ScenarioError(f"{name} is set and has no key in it: say one, or unset it.")
    return keys


def _in_file(option: str, name: str) -> list[str]:
    """Read keys, one a line; skip empty lines and those that begin with #."""
    if not name:
        return []
    path = Path(name)
    try:
        with path.open("rb") as file:
            _warn_if_open(path, os.fstat(file.fileno()))
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # A name with a NUL is a ValueError.
        why = getattr(error, "strerror", None) or error
        raise ScenarioError(f"`{option}` is {name!r}, which cannot be read: {why}.", option) from error
    if len(content) > MOST_BYTES:
        raise ScenarioError(
            f"`{option}` is {name!r}, which is no file of keys: {MOST_BYTES} bytes are the most.", option
        )
    keys = list(_on_lines(content, path, option))
    if not keys:
        raise ScenarioError(f"`{option}` is {name!r}, which has no key in it: it must have one a line.", option)
    return keys


def _on_lines(content: bytes, path: Path, option: str) -> Iterable[str]:
    for number, line in enumerate(content.split(b"\n"), 1):
        text = line.decode("utf-8", "surrogateescape").strip()
        if text and not text.startswith("#"):
            yield _checked(text, f"{path}, line {number}: the key", option)


def _checked(key: str, what: str, *options: str) -> str:
    """Return a key that can be one; the message for another doesn't tell it."""
    if not key:
        raise ScenarioError(f"{what} is empty: it must be {ALLOWED}.", *options)
    if not fits_header(key) or set(key) & set(" ,"):
        raise ScenarioError(f"{what} has a character that no key may have: it must be {ALLOWED}.", *options)
    return key


def _warn_if_open(path: Path, about: os.stat_result) -> None:
    if stat.S_ISREG(about.st_mode) and about.st_mode & stat.S_IROTH:
        _warn(path)


@cache
def _warn(path: Path) -> None:
    """Warn of a file once, though a study reads it for each of its points."""
    log.warning("%s can be read by every user of this machine: `chmod 600` it.", path)
