"""Connection epoch: tells whether a restarted actor has lost its state."""

from dataclasses import dataclass


@dataclass(slots=True)
class Link:
    """A connection to an actor: whether it can be called, and how often its state was lost."""

    up: bool = True
    losses: int = 0

    def lose(self) -> None:
        """Record that the actor is down, and has lost its state."""
        self.up = False
        self.losses += 1

    @property
    def state(self) -> int | None:
        """The connection's epoch: None while the actor is down, and another number after each loss."""
        return self.losses if self.up else None
