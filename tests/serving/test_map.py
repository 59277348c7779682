"""Is the map of the house true: are its files there, its rooms all, and none too full?"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "serving"
MAP = (HOUSE / "README.md").read_text(encoding="utf-8")
PAGES = [page for page in sorted(ROOT.rglob("*.md")) if not any(part.startswith(".") for part in page.parts)]
MOST_MODULES, MOST_LINES = 20, 300


def modules() -> list[Path]:
    found = [path for package in ("serving", "device_model") for path in (ROOT / package).rglob("*.py")]
    return [path for path in found if "pb" not in path.parts]


def test_what_the_map_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", MAP)
    assert len(links) > 20 and [link for link in links if not (HOUSE / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (page.parent / link).exists()] == []


def test_the_map_has_every_room_and_no_other() -> None:
    named = set(re.findall(r"^\| `(\w+)/`", MAP, re.MULTILINE))
    assert named == {path.parent.name for path in HOUSE.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", sorted({path.parent for path in modules()}), ids=lambda folder: folder.name)
def test_no_room_is_too_full(folder: Path) -> None:
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= MOST_MODULES


def test_no_file_is_too_long() -> None:
    long = {str(path): lines for path in modules() if (lines := len(path.read_text().splitlines())) > MOST_LINES}
    assert long == {}
