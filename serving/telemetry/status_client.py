"""Status client: reads the status of a running emulation over HTTP."""

import ssl

import httpx
import msgspec

from serving.security.bearer import bearer
from serving.telemetry.status import Status
from serving.usage_error import UsageError

TIMEOUT_S = 5.0


class Unreachable(UsageError):
    """An emulation that cannot be reached."""


def fetch(url: str, api_key: str | None = None, verify: ssl.SSLContext | bool = True) -> Status:
    """Return the status of the emulation at `url`. Raise Unreachable."""
    try:
        answer = httpx.get(f"{url}/foreserve/v1/status", headers=bearer(api_key), timeout=TIMEOUT_S, verify=verify)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(
            f"Nothing answers at {url} ({error}): is `foreserve serve` up, and is that its port?"
        ) from error
    if answer.status_code in (401, 403):
        raise Unreachable(f"{url} wants an API key: --api-key, or OPENAI_API_KEY.")
    try:
        return msgspec.json.decode(answer.content, type=Status)
    except msgspec.DecodeError as error:
        raise Unreachable(f"What answers at {url} is no foreserve server ({answer.status_code}).") from error
