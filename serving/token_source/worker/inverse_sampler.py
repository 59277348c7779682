"""Inverse transform sampling of a whole batch: a uniform number for each row, and its cumulated probabilities.

vLLM's sampler draws noise for each logit, calls each seeded request's generator in turn, and sorts all logits
for top-p. Here a row's uniform comes from a hash of its request's seed and the position of the token in its answer, for
the whole batch at once: a request draws the same whatever else is in the batch, and however often it is made again. A
token that top-p leaves out is drawn again, which is rare. Where that goes on, and for top-k, the largest logits are
examined, and all of them only where the largest are not enough.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

LARGEST = (128, 1024)
"""Numbers of largest logits that are tried: the first has top-p's share of nearly any row, the second of a flat one."""
# SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
LAST_SHIFT = np.uint64(31)
MANTISSA_BITS = 53
TRIES = 4
"""Draws among all tokens for one within top-p, before the largest logits are examined."""

Seeds = NDArray[np.uint64]


class InverseSampler(torch.nn.Module):  # type: ignore[misc]
    """A replacement of vLLM's `TopKTopPSampler`, for logits after temperature and processors."""

    def __init__(self, positions: Callable[[], NDArray[Any]]) -> None:
        """`positions` returns the number of output tokens of each row's request [rows]."""
        super().__init__()
        self._positions = positions

    def forward(
        self,
        logits: torch.Tensor,
        generators: Mapping[int, torch.Generator],
        k: torch.Tensor | None,
        p: torch.Tensor | None,
    ) -> tuple[torch.Tensor, None]:
        """Return a token for each row of `logits` [rows, vocabulary], and None in the place of log probabilities.

        `generators` have the seeds, by row, where there are any; `k` and `p` [rows] are of top-k and top-p.
        """
        return sample(logits, self._uniforms(len(logits), generators).to(logits.device), k, p), None

    def _uniforms(self, rows: int, generators: Mapping[int, torch.Generator]) -> torch.Tensor:
        drawn = torch.rand(rows, dtype=torch.float64)
        if generators:
            indices = np.fromiter(generators, np.intp, len(generators))
            seeds = np.fromiter((each.initial_seed() for each in generators.values()), np.uint64, len(generators))
            drawn.numpy()[indices] = uniforms(seeds, self._positions()[indices])
        return drawn


def uniforms(seeds: Seeds, positions: NDArray[Any]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each pair of a seed and a position [n]."""
    return _in_unit(mixed(mixed(seeds) + (positions.astype(np.uint64) + np.uint64(1)) * GOLDEN))


def mixed(numbers: Seeds) -> Seeds:
    """Return SplitMix64's hash of each number: each of its bits depends on all bits of the number."""
    for shift, factor in MIX:
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * factor
    return numbers ^ (numbers >> LAST_SHIFT)


def _in_unit(numbers: Seeds) -> NDArray[np.float64]:
    return np.ldexp((numbers >> np.uint64(64 - MANTISSA_BITS)).astype(np.float64), -MANTISSA_BITS)


def sample(
    logits: torch.Tensor, drawn: torch.Tensor, k: torch.Tensor | None = None, p: torch.Tensor | None = None
) -> torch.Tensor:
    """Return a token for each row of `logits` [rows, vocabulary], by its uniform number in `drawn` [rows].

    Its probability is `softmax(logits)`, among the `k` largest and the fewest that have at least a share `p` [rows].
    """
    shares = torch.softmax(logits, -1)
    cumulated = shares.cumsum(-1)
    tokens = _inverse(cumulated, drawn)
    if k is None and p is None:
        return tokens
    rows, vocabulary = logits.shape
    most = torch.full((rows,), vocabulary, device=logits.device) if k is None else k.clamp(max=vocabulary).long()
    share = torch.ones(rows, device=logits.device) if p is None else p
    # For top-p alone the token drawn is nearly always right: all that are left out have a share of at most 1 - p.
    left = torch.nonzero((most >= vocabulary) & (share < 1))[:, 0]
    for _ in range(TRIES):
        left = left[~_is_within(shares[left], tokens[left], share[left])]
        if not len(left):
            break
        drawn = drawn.index_copy(0, left, redrawn(drawn[left]))
        tokens[left] = _inverse(cumulated[left], drawn[left])
    left = torch.cat([left, torch.nonzero(most < vocabulary)[:, 0]])
    for looked_at in (*(each for each in LARGEST if each < vocabulary), vocabulary):
        if not len(left):
            break
        found, enough = _among(logits[left], looked_at, drawn[left], most[left], share[left])
        tokens[left[enough]] = found[enough]
        left = left[~enough]
    return tokens


def redrawn(drawn: torch.Tensor) -> torch.Tensor:
    """Return new uniform numbers that follow from those drawn before [n]."""
    bits = drawn.cpu().numpy().view(np.uint64)
    return torch.from_numpy(_in_unit(mixed(bits + GOLDEN))).to(drawn.device)


def _is_within(shares: torch.Tensor, tokens: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Tell of each row whether its token is among the fewest that have at least a share: likelier ones have less."""
    own = shares.gather(1, tokens[:, None])
    return (shares * (shares > own)).sum(-1) < share


def _among(
    logits: torch.Tensor, looked_at: int, drawn: torch.Tensor, most: torch.Tensor, share: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw among the `looked_at` largest logits of each row; and tell of each row whether they were enough."""
    everything = looked_at == logits.shape[1]
    values, indices = logits.sort(-1, descending=True) if everything else logits.topk(looked_at)
    # Shares of all of the row, or of the `most` largest where there are no more of them.
    total = torch.logsumexp(logits, -1, keepdim=True)
    first = torch.arange(looked_at, device=logits.device) < most[:, None]
    few = (most <= looked_at)[:, None]
    total = torch.where(few, torch.logsumexp(values.masked_fill(~first, -torch.inf), -1, keepdim=True), total)
    shares = torch.exp(values - total).masked_fill(~first, 0.0)
    before = shares.cumsum(-1) - shares
    kept = shares.masked_fill(before >= share[:, None], 0.0)
    enough = few[:, 0] | ((most >= logits.shape[1]) & (before[:, -1] + shares[:, -1] >= share))
    return indices.gather(1, _inverse(kept.cumsum(-1), drawn)[:, None])[:, 0], enough


def _inverse(cumulated: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    """Return for each row the first column whose cumulated share exceeds the drawn part of the row's sum."""
    total = cumulated[:, -1:]
    # In single precision the product may be the sum itself, which no column exceeds.
    wanted = torch.minimum((drawn[:, None] * total).to(total.dtype), torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulated, wanted, right=True)[:, 0].clamp(max=cumulated.shape[-1] - 1)
