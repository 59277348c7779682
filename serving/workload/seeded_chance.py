"""Seeded chance: a generator for each aspect of a workload, and ids, from names and numbers."""

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

MASK = 2**64 - 1
POSITIVE = 2**63 - 1
TURN_BITS, ROLE_BITS = 20, 1


def mix(bits: Any) -> Any:
    """64 bits that look like chance, other ones for each argument (the last steps of splitmix64): of an int, or of each
    uint64 in an array."""
    bits = (bits + 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def named(*names: object) -> int:
    """64 bits for what has these names."""
    return int.from_bytes(blake2b("/".join(map(str, names)).encode(), digest_size=8).digest(), "little")


def stream(seed: int, aspect: str) -> np.random.Generator:
    """Return the generator behind one aspect of a workload: to draw more or less of it changes no other."""
    return np.random.default_rng([seed, named(aspect)])


def segment_ids(salt: int, sessions: NDArray[np.int64]) -> list[int]:
    """Return the ids of what the users of many sessions say first; `segment_id(salt, session, 0)` for each."""
    ids: list[int] = mix(sessions.astype(np.uint64) << np.uint64(TURN_BITS + ROLE_BITS) ^ np.uint64(salt)).tolist()
    return ids


def segment_id(salt: int, session: int, turn: int, reply: bool = False) -> int:
    """Return the id of what a user says in a turn of a session, or of the reply to it; `salt` is the workload's."""
    id: int = mix(((session << TURN_BITS + ROLE_BITS) + (turn << ROLE_BITS) + reply) & MASK ^ salt)
    return id
