"""The external memory tier: shares its bandwidth among the devices that draw on it, and counts their bytes."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Lpddr:
    """An LPDDR tier of `bytes_per_s`, granted in equal shares."""

    bytes_per_s: float
    traffic_bytes: dict[int, float] = field(default_factory=dict)

    def lease(self, device: int, traffic_bytes: float) -> float:
        """Bytes per second that `device` may draw from now on; `traffic_bytes` is what it drew since it last asked."""
        self.traffic_bytes[device] = self.traffic_bytes.get(device, 0.0) + traffic_bytes
        return self.bytes_per_s / len(self.traffic_bytes)
