"""The external memory tier: shares its bandwidth fairly among the devices that draw on it.

While a device draws, each other one draws too with the chance of its duty: the share of its emulated time in which it
draws. In the fluid limit (requests of all devices in turn) the device then has

    bandwidth / (1 + the others' duties).

So a device alone has all, N that always draw have an Nth each, and one that computes meanwhile costs the others little.
Never more is drawn than there is: of duties d_i with the sum S, device i draws d_i / (1 + S - d_i) of the bandwidth on
average, which is at most d_i / S because d_i is at most 1; and these add up to 1.
"""

from dataclasses import dataclass, field

# Emulated seconds for which a lease of a shared tier holds: what the others do changes meanwhile.
LEASE_S = 0.05


@dataclass(slots=True)
class TierDraw:
    """One device's draw: the bandwidth granted last (bytes/s), and its duty, the share of time in which it draws. A new
    device starts with a duty of 1."""

    granted_bytes_per_s: float
    duty: float = 1.0


@dataclass(slots=True)
class SlowTier:
    """A slow tier of `bytes_per_s`, shared fairly among the devices that draw on it."""

    bytes_per_s: float
    _draws: dict[int, TierDraw] = field(default_factory=dict)

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
        """Return the bytes per second that `device`, which drew `traffic_bytes` in the last `elapsed_s` emulated
        seconds, may draw from now on."""
        draw = self._draws.setdefault(device, TierDraw(self.bytes_per_s))
        if elapsed_s > 0:
            draw.duty = min(1.0, traffic_bytes / (draw.granted_bytes_per_s * elapsed_s))
        draw.granted_bytes_per_s = self.fair_bytes_per_s(device)
        return draw.granted_bytes_per_s

    def granted_bytes_per_s(self, device: int) -> float:
        """Return the bytes per second granted to `device` last. Raise KeyError if it holds no lease."""
        return self._draws[device].granted_bytes_per_s

    def release(self, device: int) -> None:
        """End the lease of `device`, which is now idle."""
        self._draws.pop(device, None)

    def fair_bytes_per_s(self, device: int) -> float:
        """Return the bytes per second that `device` has while it draws."""
        return self.bytes_per_s / (1.0 + sum(draw.duty for other, draw in self._draws.items() if other != device))
