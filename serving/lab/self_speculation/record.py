"""acceptance.json: what was measured, on which model, and how."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.lab.self_speculation.cases import Case
from serving.lab.self_speculation.measure import MeasuredPoint
from serving.process.output_folder import write_text


@dataclass(frozen=True)
class AcceptanceRecord:
    """All points by figure, and `about`: the model's hash, seeds, prompts and threads."""

    about: dict[str, Any]
    figures: dict[str, list[MeasuredPoint]]

    def point(self, **values: Any) -> MeasuredPoint | None:
        """Return the point of a case, which must say its family, or None if it was not measured."""
        case = Case(**values)
        return next((point for points in self.figures.values() for point in points if point.case == case), None)

    def curve(self, figure: str, **values: Any) -> list[MeasuredPoint]:
        """Return the points of a figure whose cases have these values."""
        found = self.figures.get(figure, [])
        return [p for p in found if all(getattr(p.case, name) == value for name, value in values.items())]

    def write(self, path: Path) -> None:
        """As JSON, a point a line; the same measurement gives the same bytes."""
        figures = ",\n".join(f'    "{name}": [\n{_lines(points)}\n    ]' for name, points in self.figures.items())
        text = f'{{\n  "about": {json.dumps(self.about)},\n  "figures": {{\n{figures}\n  }}\n}}\n'
        write_text("--out", path, text)


def _lines(points: Iterable[MeasuredPoint]) -> str:
    return ",\n".join(f"      {json.dumps(point.record())}" for point in points)
