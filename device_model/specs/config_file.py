"""A model's `config.json` as Hugging Face has it, read with a sentence for whatever is missing or of the wrong kind."""

import json
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from device_model.specs.spec import SpecError


class SpecValue(NamedTuple):
    """A value of a spec, and the text that says where it is from."""

    value: Any
    source: str


class ConfigFile:
    """The keys of one `config.json`. A key that is null counts as missing. All methods raise SpecError."""

    def __init__(self, path: Path) -> None:
        self._name = "/".join(path.parts[-2:])
        try:
            self._values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SpecError(f"{path} can't be read: {error.strerror}; allowed is a model's config.json.") from None
        except ValueError as error:
            raise SpecError(f"{self._name} is not JSON in UTF-8: {error}.") from None
        except RecursionError:
            raise SpecError(f"{self._name} is nested too deeply; allowed is a model's config.json.") from None
        if not isinstance(self._values, dict):
            self.refuse("no JSON object; allowed is a model's config.json")

    def refuse(self, what: str) -> NoReturn:
        """SpecError: the name of the file, and `what` is wrong with it, without the full stop."""
        raise SpecError(f"{self._name}: {what}.")

    def has(self, key: str) -> bool:
        """Tell whether `key` is there and not null."""
        return self._values.get(key) is not None

    def mentions(self, key: str) -> bool:
        """Tell whether `key` is there, be it null."""
        return key in self._values

    def get(self, key: str, kind: type, words: str) -> Any:
        """Return the value of `key`, which must be a `kind`; `words` complete "allowed is ..."."""
        if not self.has(key):
            self.refuse(f"the key {key} is missing; required is {words}")
        value = self._values[key]
        if type(value) is not kind:
            self.refuse(f"{key} is {value!r}; allowed is {words}")
        return value

    def count(self, key: str, least: int = 1) -> SpecValue:
        """Return the figure of `key`, a whole number of at least `least`."""
        words = f"a whole number of at least {least}"
        value = self.get(key, int, words)
        if value < least:
            self.refuse(f"{key} is {value!r}; allowed is {words}")
        return SpecValue(value, f"config.json: {key}")

    def count_or_none(self, key: str) -> SpecValue:
        """Return the figure of `key`, a whole number, 0 if it is missing."""
        return self.count(key, least=0) if self.has(key) else SpecValue(0, f"config.json has no {key}, or null")

    def flag(self, key: str) -> SpecValue:
        """Return the figure of `key`, true or false; false if it is missing."""
        if not self.has(key):
            return SpecValue(False, f"config.json has no {key}; transformers takes that for false in this family")
        return SpecValue(self.get(key, bool, "true or false"), f"config.json: {key}")

    def kinds(self, key: str, allowed: tuple[str, str], layers: int) -> list[str]:
        """One of two words for each of `layers` layers."""
        words = f"a list of {layers} entries, each {' or '.join(allowed)}"
        kinds: list[str] = self.get(key, list, words)
        if len(kinds) != layers or any(kind not in allowed for kind in kinds):
            self.refuse(f"{key} has {len(kinds)} entries, {_some(kinds)}; allowed is {words}")
        return kinds

    def numbers(self, key: str) -> set[int]:
        """Return the numbers of `key`, a list of whole numbers, none if it is missing."""
        words = "a list of whole numbers"
        numbers = self.get(key, list, words) if self.has(key) else []
        if any(type(number) is not int for number in numbers):
            self.refuse(f"{key} is {_some(numbers)}; allowed is {words}")
        return set(numbers)


def _some(values: list[Any]) -> str:
    """Return the first five of the distinct values, as text."""
    return ", ".join(list(dict.fromkeys(map(repr, values)))[:5]) or "none"
