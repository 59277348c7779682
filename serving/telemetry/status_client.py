"""Status client: reads the status of a running emulation over HTTP."""

import ssl
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from serving.security.bearer import bearer
from serving.telemetry.status import Status
from serving.telemetry.status_history import StatusHistory
from serving.usage_error import UsageError

TIMEOUT_S = 5.0
# All connections are taken, or an engine core, or what is behind a proxy, is not there for a moment.
NOT_NOW = (502, 503, 504)

T = TypeVar("T", Status, StatusHistory)


class Unreachable(UsageError):
    """An emulation that cannot be reached."""


def base_of(address: str) -> str:
    """Return the URL before `/v1` of what a user has written: HOST:PORT alone is over HTTP."""
    url = address if "://" in address else f"http://{address}"
    return url.rstrip("/").removesuffix("/v1")


def fetch(url: str, api_key: str | None = None, verify: ssl.SSLContext | bool = True) -> Status:
    """Return the status of the emulation at `url`. Raise Unreachable."""
    return _fetched(url, "status", Status, api_key, verify)


def fetch_history(
    url: str, after: int, api_key: str | None = None, verify: ssl.SSLContext | bool = True
) -> StatusHistory:
    """Return the history of the emulation at `url` from the `after`-th point on. Raise Unreachable."""
    return _fetched(url, f"history?after={after}", StatusHistory, api_key, verify)


def _fetched(url: str, what: str, kind: type[T], api_key: str | None, verify: ssl.SSLContext | bool) -> T:
    try:
        # httpx takes any number for a port, and the system its last 16 bits: another server's.
        if urlsplit(url).port == 0:
            raise ValueError("no server has port 0")
        # Straight, whatever proxy the environment names, as `foreserve load` asks.
        answer = httpx.get(
            f"{url}/foreserve/v1/{what}", headers=bearer(api_key), timeout=TIMEOUT_S, verify=verify, trust_env=False
        )
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Unreachable(
            f"Nothing answers at {url} ({error}): is `foreserve serve` up, and is that its port?"
        ) from error
    if answer.status_code in (401, 403):
        raise Unreachable(f"{url} wants an API key: --api-key, or OPENAI_API_KEY.")
    if answer.status_code in NOT_NOW:
        raise Unreachable(f"{url} cannot answer now ({answer.status_code}): try again in a moment.")
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise Unreachable(f"What answers at {url} is no foreserve server ({answer.status_code}).") from error
