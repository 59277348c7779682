"""Stratum (arXiv 2510.05245): tables, the numbers that its text prints of figures, and rankings."""

from device_model.validation.figures import PaperFigure
from device_model.validation.stratum import predictions


def figures() -> list[PaperFigure]:
    """Return all figures of Stratum, predicted with the constants that ship."""
    return predictions.figures()
