"""The state of a running server from Python: its devices as typed rows and as columns."""

from typing import NamedTuple

import msgspec

from serving.notebook.columns import Columns, columns_of
from serving.security.client_trust import SYSTEMS, Trust
from serving.telemetry.status import DeviceNow, Status
from serving.telemetry.status_client import base_of, fetch


class ServerState(NamedTuple):
    """The status of an emulation at one instant (`serving.telemetry.status`), a row each device."""

    status: Status

    @property
    def rows(self) -> list[DeviceNow]:
        """Return the devices."""
        return self.status.devices

    @property
    def columns(self) -> Columns:
        """Return the devices by the fields of `DeviceNow`."""
        return columns_of(msgspec.structs.asdict(device) for device in self.rows)


def state(url: str = "http://127.0.0.1:8000", api_key: str | None = None, trust: Trust = SYSTEMS) -> ServerState:
    """Return what a server does now: `url` is that of its HTTP port, with or without `/v1`. Raise UsageError if none
    answers."""
    base = base_of(url)
    return ServerState(fetch(base, api_key, trust.context() if base.startswith("https:") else True))
