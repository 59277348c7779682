"""Mixtral of Experts (arXiv 2401.04088): how many parameters the model has, and how many of them a token uses."""

from device_model.specs.spec import Model
from device_model.specs.spec_file import SPECS, read_named
from device_model.validation.figures import CHECK, PaperFigure
from device_model.weights import Weights

MODEL = "mixtral-8x7b"
GIGA = 1e9


def figures() -> list[PaperFigure]:
    """Return both figures, in billions, as they follow from the model's file."""
    model = read_named(Model, "model", MODEL, SPECS / "models")
    weights = Weights.of(model)
    layers = model.expert_layers
    held = weights.static_held + weights.experts * weights.expert
    used = weights.static_held + layers * model.top_k * weights.expert
    return [_figure("parameters, billions", 47.0, held / GIGA), _figure("of a token, billions", 13.0, used / GIGA)]


def _figure(what: str, published: float, predicted: float) -> PaperFigure:
    return PaperFigure(
        what, "", MODEL, published, predicted, CHECK, fitted=False, where="Mixtral of Experts, introduction"
    )
