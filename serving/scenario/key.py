"""A key of a scenario, declared once: its kind, unit and default, what it says, what is allowed.

The option of the command line, the key of a file, the README's table and the error come of that.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any

from serving.nearest_name import meant
from serving.scenario.kind import Kind, kind_of
from serving.scenario.scenario_error import ScenarioError
from serving.usage_error import UsageError

DECLARED = "key"
WIDEST = 2**63 - 1
"""Of whole numbers, as tables and messages hold them."""


@dataclass(frozen=True, slots=True)
class Key:
    """The declaration of a key. Numbers are of `unit`, from `least` to `most`, or above `above`; `why` explains a
    bound. `one` is the option that adds an entry to a list; `also` are other
    names of the option, that people know from elsewhere. A value that `is_secret` is never shown; `shown` stands for
    a default that is not written as it is. What `parse` makes of a text is kept in the field `into`."""

    help: str
    kind: Kind
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    why: str = ""
    one: str = ""
    also: tuple[str, ...] = ()
    is_secret: bool = False
    shown: str = ""
    parse: Callable[[Any], Any] | None = None
    into: str = ""

    def read(self, value: Any, what: str) -> Any:
        """Return a value of a TOML file as a scenario has it. Raise `ScenarioError`, which begins with `what`, if it is
        of another kind."""
        found = self.kind.value_of(value)
        if found is None:
            said = "" if self.is_secret else f" is {value!r}: it"
            raise ScenarioError(f"{what}{said} must be {self.kind.words(self.unit)}.")
        return found

    def parsed(self, name: str, value: Any) -> Any:
        """Return what a value of the key called `name` stands for. Raise `ScenarioError` if it is not allowed."""
        if must := self.wrong(value):
            raise ScenarioError(f"`{name}` is {value!r}: it must be {must}.", name)
        if self.parse is None:
            return value
        try:
            return self.parse(value)
        except UsageError as error:
            raise ScenarioError(str(error), *error.keys, name) from error

    def default(self, default: Any) -> str:
        """Return its default, with its unit, for people; "" if that says nothing."""
        if default == "" or self.kind in (Kind.WORDS, Kind.FILE):
            return ""
        return f"{self.shown or default} {self.unit}".rstrip()

    def wrong(self, value: Any) -> str:
        """Return what a value must be, if it is not; "" if it is valid."""
        if self.choices:
            return "" if value in self.choices else f"{' or '.join(self.choices)}{meant(value, self.choices)}"
        bound = self._bound(value) if isinstance(value, int | float) else ""
        return f"{bound} ({self.why})" if bound and self.why else bound

    def _bound(self, value: float) -> str:
        """Return the bound that a number does not keep. What has no end is above all of them."""
        endless = value == float("inf")
        finite = "finite and " if endless else ""
        if self.above is not None and (endless or not value > self.above):
            return f"{finite}above {self.above:g}"
        if self.least is not None and (endless or not value >= self.least):
            whole = "a whole number of " if isinstance(value, int) and self.least else ""
            return f"{finite}{whole}at least {self.least:g}"
        if self.most is not None and value > self.most:
            return f"at most {self.most}" if isinstance(self.most, int) else f"at most {self.most:g}"
        return "a whole number of 64 bits" if isinstance(value, int) and not -WIDEST <= value <= WIDEST else ""


def key(default: Any, help: str, **more: Any) -> Any:
    """Return a field of a scenario; `more` is as of `Key`."""
    declared = Key(help, **{"kind": kind_of(default)} | more)
    return field(default=default, metadata={DECLARED: declared}, repr=not declared.is_secret)


def key_of(declared: "Field[Any]") -> Key:
    """Return the declaration of a field."""
    found: Key = declared.metadata[DECLARED]
    return found


def key_fields(kind: Any) -> "list[Field[Any]]":
    """Return the fields of a scenario that are keys; others are parsed from them."""
    return [each for each in fields(kind) if DECLARED in each.metadata]


def keys_of(kind: type) -> dict[str, Key]:
    """Return all keys of a scenario, by name."""
    return {each.name: key_of(each) for each in key_fields(kind)}


def parse_keys(scenario: Any) -> None:
    """Set the fields that keys stand for. Raise `ScenarioError` for the first value that its key does not allow."""
    for name, declared in keys_of(type(scenario)).items():
        found = declared.parsed(name, getattr(scenario, name))
        if declared.into:
            object.__setattr__(scenario, declared.into, found)
