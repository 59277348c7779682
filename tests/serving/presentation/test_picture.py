"""Pictures: one style, the same bytes for the same figures, and nothing kept of them."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from serving.presentation.picture import STYLE, panels, style, write_png


def drawn() -> Figure:
    figure, [[left, right]] = panels((3, 2), columns=2)
    left.plot([1, 2], [2, 1])
    assert not right.spines["top"].get_visible()
    return figure


def test_the_same_figures_give_the_same_file(tmp_path: Path) -> None:
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        [first] = write_png({"one": drawn}, tmp_path)
    [second] = write_png({"other": drawn}, tmp_path)
    assert [first.name, second.name] == ["one.png", "other.png"]
    assert first.read_bytes() == second.read_bytes()


def test_the_style_is_over_with_its_context() -> None:
    before = matplotlib.rcParams["axes.edgecolor"]
    with style(**{"font.size": 3}):
        assert (
            matplotlib.rcParams["axes.edgecolor"] == STYLE["axes.edgecolor"] and matplotlib.rcParams["font.size"] == 3
        )
    assert matplotlib.rcParams["axes.edgecolor"] == before
