"""Numbers with a few digits, for people."""

from decimal import Decimal


def digits(value: float, count: int) -> str:
    """Return a number with `count` digits, or with all that stand before the point; never in scientific notation."""
    told = f"{value:.{count}g}"
    if "e" not in told:
        return told
    return f"{value:.0f}" if abs(value) > 1 else f"{Decimal(told):f}"
