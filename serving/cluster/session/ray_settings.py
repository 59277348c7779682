"""Ray's settings: environment variables that Ray reads as it is imported, so nothing of it is imported here."""

import os
import secrets
from functools import cache
from pathlib import Path

SPARE_WORKERS, AUTH_MODE = "RAY_prestart_worker_first_driver", "RAY_AUTH_MODE"

SETTINGS = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Calls that nobody waits for fail where an actor has died; its supervisor hears of that otherwise.
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # A call after the end is a mistake, and must not start another Ray.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # Ray gives its workers the highest niceness; ours have deadlines.
    "RAY_worker_niceness": "0",
    # Of a worker that is killed before it has told that it is there, Ray knows only by this time (seconds; a minute by
    # default). One that waits for the fork server meanwhile loses nothing: the next one waits in its place.
    "RAY_worker_register_timeout_seconds": "15",
    # What is forked later becomes another program, which needs nothing of gRPC that a fork would break; gRPC would say
    # each time that it could not mend it.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    # Each worker measures what it does ten times a second, for a dashboard that we do not start.
    "RAY_event_stats": "0",
    # Ray's records of each call, for a dashboard that we do not start, are memory that grows.
    "RAY_task_events_report_interval_ms": "0",
}


def is_joined() -> bool:
    """Tell whether Ray is somebody else's, which may have other nodes than this one."""
    return bool(os.environ.get("RAY_ADDRESS"))


def set_environment(spare_workers: bool = True) -> None:
    """Set Ray's variables, but for those that the user has set. `spare_workers`: have a Ray of our own start a worker
    for each core before there is work for it."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ[SPARE_WORKERS] = str(int(spare_workers))


def keep_strangers_out(folder: Path) -> None:
    """Have the processes of a Ray of our own ask for a token in the run's `folder`, which only they can read; the one
    that Ray would make anybody may."""
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text(_token(), encoding="utf-8")
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    # A new Ray asks for tokens by default; variables that say otherwise were meant for another one.
    for name in (AUTH_MODE, "RAY_AUTH_TOKEN"):
        os.environ.pop(name, None)


def show_token() -> None:
    """Have who imports Ray from now on show the token of `keep_strangers_out` to a Ray that is there already."""
    os.environ[AUTH_MODE] = "token"


@cache
def _token() -> str:
    """Return the token of all sessions of this process, as Ray reads it but once."""
    return secrets.token_hex(32)
