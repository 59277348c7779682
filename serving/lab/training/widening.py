"""Wider heads for a model that is trained: what it computes stays nearly the same, and there is more room to learn.

A head's old elements stand among the new ones where the rotary angles are theirs, or the next faster ones; new queries
and keys are small, and new values aren't read yet (compare Net2Net, Chen et al., 2016).
"""

from dataclasses import replace

import torch

from serving.lab.training.model import TrainedModel

SEED = 7  # of the new rows
SPREADS = {"q": 0.15, "k": 0.15, "v": 1.0}  # of the new rows, of the old ones'


def widened(model: TrainedModel, size: int) -> TrainedModel:
    """Return the model with heads of `size` elements, in place of fewer. Raise ValueError if it has more already."""
    old = model.shape.head_size
    if size < old:
        raise ValueError(f"its heads are of {old}, not of {size} or fewer")
    places, generator = _places(old, size), torch.Generator().manual_seed(SEED)
    wide = TrainedModel(replace(model.shape, head_size=size))
    made = {
        name: _widened(name.removesuffix(".scale").split(".")[-1], weights, places, size, generator)
        for name, weights in model.state_dict().items()
    }
    wide.load_state_dict(made)
    return wide


def _places(old: int, size: int) -> torch.Tensor:
    """Return where each of a head's old elements comes to stand: [old]. Element i and i + half share an angle, which
    falls with i / half."""
    first = torch.arange(old // 2) * size // old
    return torch.cat([first, size // 2 + first])


def _widened(
    kind: str, weights: torch.Tensor, places: torch.Tensor, size: int, generator: torch.Generator
) -> torch.Tensor:
    """Return the weights of this kind for heads of `size`; those that no head is in stay as they are."""
    if kind in SPREADS:
        return _more_rows(weights, places, size, SPREADS[kind], generator)
    if kind == "o":
        return _more_columns(weights, places, size)
    if kind in ("q_norm", "k_norm"):
        scale = weights.abs().mean().repeat(size).index_copy(0, places, weights)
        # A norm over more elements, mostly small, makes each larger; scores are divided by the root of the size.
        return scale / (size / len(places)) ** 0.5 if kind == "k_norm" else scale
    return weights


def _more_rows(
    weights: torch.Tensor, places: torch.Tensor, size: int, spread: float, generator: torch.Generator
) -> torch.Tensor:
    rows = weights.unflatten(0, (-1, len(places)))
    fresh = torch.randn(len(rows), size - len(places), weights.shape[1], generator=generator) * rows.std() * spread
    made = torch.empty(len(rows), size, weights.shape[1])
    made[:, places] = rows
    made[:, [place for place in range(size) if place not in places.tolist()]] = fresh
    return made.flatten(0, 1)


def _more_columns(weights: torch.Tensor, places: torch.Tensor, size: int) -> torch.Tensor:
    columns = weights.unflatten(1, (-1, len(places)))
    made = torch.zeros(len(weights), columns.shape[1], size)
    made[..., places] = columns
    return made.flatten(1)
