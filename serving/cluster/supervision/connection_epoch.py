"""Tell whether what is on the other side is still the one that was told things."""

from dataclasses import dataclass


@dataclass(slots=True)
class Link:
    """Tell whether a party can be called."""

    up: bool = True
    losses: int = 0

    def lose(self) -> None:
        """It is down, and has forgotten whatever it was told."""
        self.up = False
        self.losses += 1

    @property
    def state(self) -> int | None:
        """None while it is down; a number that is another after each time that it was."""
        return self.losses if self.up else None
