"""What is left of a device in which something is broken, throttled or too hot."""

from typing import NamedTuple


class Condition(NamedTuple):
    """Shares, above 0 and at most 1: of the external bandwidth, of HB (its capacity and bandwidth), of the clock."""

    ext_share: float = 1.0
    hb_share: float = 1.0
    clock_share: float = 1.0


SOUND = Condition()
