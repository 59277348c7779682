"""All keys of a scenario as the README has them: python -m serving.scenario.key_table"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from serving.presentation.table import Table
from serving.scenario.key import Key, key_fields, key_of
from serving.scenario.listen_options import ListenOptions
from serving.scenario.options import options_of
from serving.scenario.scenario import Scenario

README = Path(__file__).with_name("README.md")
BEGINS, ENDS = "<!-- keys -->\n", "<!-- until here by `python -m serving.scenario.key_table` -->\n"


def key_table() -> str:
    """Return the table of keys, in Markdown."""
    return Table(["key, option", "kind", "default", ""], list(_rows()), words=range(4)).markdown()


def _rows() -> Iterator[list[str]]:
    # What is emulated, before where it listens.
    listening = {field.name for field in key_fields(ListenOptions)}
    for field in sorted(key_fields(Scenario), key=lambda field: field.name in listening):
        options = options_of(field.name)
        plain = options[0] == "--" + field.name.replace("_", "-")
        name = ", ".join(f"`{each}`" for each in (field.name, *options[plain:]))
        key = key_of(field)
        yield [name, _kind(key), _shown(key.shown or field.default), key.help]


def _kind(key: Key) -> str:
    return " or ".join(f"`{choice}`" for choice in key.choices) or key.kind.words(key.unit).removeprefix("a ")


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return "<br>".join(f"`{each}`" for each in default)
    return f"`{default}`" if isinstance(default, str) and default else f"{default}"


def with_table(text: str) -> str:
    """Return a README with the table as it is now."""
    before, _, rest = text.partition(BEGINS)
    return before + BEGINS + key_table() + ENDS + rest.partition(ENDS)[2]


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
