"""Draft tokens judged so that what comes out is distributed as the target's (Leviathan et al. 2023; Chen et al. 2023).

At temperature 0 a distribution is a single token, and the same rule is: accept what the target would have said.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor


class DraftVerdict(NamedTuple):
    """What becomes of the draft tokens of each sequence [sequences]."""

    accepted: Tensor  # how many of them, from the first on
    following: Tensor  # the token behind them: the target's own


def generator(seed: int) -> torch.Generator:
    """Return random numbers by a seed of any size, of which 64 bits count: torch refuses larger ones."""
    return torch.Generator().manual_seed(seed % 2**64)


def distribution(logits: Tensor, temperature: float) -> Tensor:
    """Probabilities [..., vocabulary]; at temperature 0 all on the likeliest token."""
    if temperature == 0:
        return functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    return (logits.double() / temperature).softmax(-1)


def sample(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draw a token [...] for each row of weights [..., vocabulary], of any sum, by numbers [...] in [0, 1)."""
    heaped = weights.double().cumsum(-1)
    below = (heaped <= uniform[..., None] * heaped[..., -1:]).sum(-1)
    return below.clamp_max(weights.shape[-1] - 1)


def judge(target: Tensor, draft: Tensor, tokens: Tensor, uniform: Tensor) -> DraftVerdict:
    """Accept a token x with probability min(1, p(x) / q(x)); behind the last, draw from what q left of p.

    p is `target` [sequences, depth + 1, vocabulary], q is `draft` [sequences, depth, vocabulary], x is of `tokens`
    [sequences, depth], drawn from q; `uniform` [sequences, depth + 1] has the random numbers in [0, 1). If all are
    accepted the next token is drawn from p alone.
    """
    depth = tokens.shape[1]
    p = target[:, :depth].gather(-1, tokens[..., None])[..., 0]
    q = draft.gather(-1, tokens[..., None])[..., 0]
    passed = uniform[:, :depth] * q < p
    accepted = passed.long().cumprod(1).sum(1)
    rows = torch.arange(len(tokens))
    left = target[rows, accepted]
    some = accepted < depth
    left[some] = (left[some] - draft[rows[some], accepted[some]]).clamp_min(0)
    return DraftVerdict(accepted, sample(left, uniform[:, depth]))
