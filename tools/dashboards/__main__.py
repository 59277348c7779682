"""Writes the dashboards: `python -m tools.dashboards deploy/grafana/dashboards`."""

import sys
from pathlib import Path

from tools.dashboards import accelerator, fidelity, serving

DASHBOARDS = {"serving": serving.made, "accelerator": accelerator.made, "fidelity": fidelity.made}


def write(folder: Path) -> None:
    """Write a file for each dashboard."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in DASHBOARDS.items():
        (folder / f"{name}.json").write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "deploy/grafana/dashboards"))
