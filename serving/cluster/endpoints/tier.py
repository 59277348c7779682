"""The service of a slow tier, called by its devices and by the edge, each from another process."""

import threading

from serving.device.slow_tier import SlowTier


class TierService:
    """A service that answers one call at a time."""

    def __init__(self, bytes_per_s: float) -> None:
        self._lock = threading.Lock()
        self._tier = SlowTier(bytes_per_s)

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
        """Return the bytes per second that a device may draw from now on, as `SlowTier.lease` does."""
        with self._lock:
            return self._tier.lease(device, traffic_bytes, elapsed_s)

    def release(self, device: int) -> None:
        """End the lease of a device, as `SlowTier.release` does."""
        with self._lock:
            self._tier.release(device)
