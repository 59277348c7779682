"""Spec files: parse TOML into a dataclass, and refuse whatever is not exactly that, by file, line and key."""

import dataclasses
import os
import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from device_model.specs.nearest_name import hint, is_a_letter_off, nearest
from device_model.specs.spec import Contradiction, SpecError, UnknownName, ValueRule

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SPECS = Path(__file__).parent
MODELS = "models"
CALIBRATION = SPECS / "calibration"
OWN_SPECS = "FORESERVE_SPECS"
"""The environment's name for the folder of a user's own specs, with `models/`, `hardware/` and `calibration/` in it."""
SOURCES = "sources"
SMALLEST, LARGEST = 1e-30, 1e30
"""Of a figure that is not 0, in any unit that there is: of others no quotient may overflow."""
MOST = 10**9
"""Of whatever is counted: beyond it numbers of bytes are no longer exact, or too large for an array."""

Spec = TypeVar("Spec", bound="DataclassInstance")


def own_folder(folder: Path) -> Path | None:
    """Return the folder of a user's own specs that stands beside `folder`, one of `SPECS`: that of the same name below
    the one that `FORESERVE_SPECS` names. None if there is none. Raise SpecError if what it names is no folder."""
    place = _own_place(folder)
    if place is not None and (missing := missing_own_folder()):
        raise SpecError(missing)
    return place


def missing_own_folder() -> str:
    """Return the sentence that what `FORESERVE_SPECS` names is no folder; "" if it is one, or names nothing."""
    own = os.environ.get(OWN_SPECS, "")
    if not own or os.path.isdir(own):  # False for what can be no path, too
        return ""
    what = "the folder with your models/, hardware/ or calibration/ in it, or leave it unset"
    return f"{OWN_SPECS} is {own!r}, and there is no such folder; allowed is {what}."


def _own_place(folder: Path) -> Path | None:
    """Return where a user's own specs beside `folder` would be, whether or not there is such a folder."""
    own = os.environ.get(OWN_SPECS)
    return Path(own) / folder.relative_to(SPECS) if own and folder.is_relative_to(SPECS) else None


def names_in(folder: Path, suffix: str = ".toml") -> list[str]:
    """Return the names that exist in `folder`: its files, without those that start with an underscore; of specs also a
    user's own."""
    return sorted({*_stems(folder, suffix), *_own_names(folder, suffix)})


def has_name(folder: Path, name: str, suffix: str = ".toml") -> bool:
    """Tell whether a name exists in `folder`. A user's own are looked for only where no shipped one has it."""
    return name in _stems(folder, suffix) or name in _own_names(folder, suffix)


def _own_names(folder: Path, suffix: str) -> set[str]:
    own = own_folder(folder) if suffix == ".toml" else None
    return set() if own is None else _stems(own, suffix)


def _stems(folder: Path, suffix: str) -> set[str]:
    try:
        files = os.listdir(folder)
    except OSError:  # there is no such folder
        return set()
    return {name.removesuffix(suffix) for name in files if name.endswith(suffix) and not name.startswith("_")}


def path_of(name: str, folder: Path) -> Path:
    """Return the file of a spec's name. Raise SpecError if a user's own file has the name of a shipped one: a name
    means the same wherever it is read."""
    shipped = folder / f"{name}.toml"
    if not shipped.exists():
        own = own_folder(folder)
        return shipped if own is None else own / f"{name}.toml"
    rival = (_own_place(folder) or folder) / shipped.name
    if rival.exists() and not rival.samefile(shipped):
        what = f"{name} is the name of a shipped one; allowed is any other, such as my-{name}"
        raise SpecError(f"{rival}, in the folder that {OWN_SPECS} names: {what}.")
    return shipped


def check_name(name: str, kind: str, folder: Path, suffix: str = ".toml", also: Sequence[str] = ()) -> None:
    """Raise UnknownName, with the names that exist, unless `name` is a file of `folder`, or `also` a name; it is called
    a `kind`."""
    if name in also or has_name(folder, name, suffix):
        return
    names = [*names_in(folder, suffix), *also]
    if name.endswith(".toml"):
        raise UnknownName(_as_file(kind, name, folder, suffix, names), kind)
    raise unknown(kind, name, names, own=own_in(folder) if suffix == ".toml" else "")


def _as_file(kind: str, name: str, folder: Path, suffix: str, names: Sequence[str]) -> str:
    """Return the sentence on a name that is that of a file, where none is read, and on what to do instead."""
    called = Path(name).stem
    exist = f"those that exist are {', '.join(names) or 'none'}"
    if suffix != ".toml":
        code = f"{folder.name}/NAME{suffix} in device_model"
        return f"There is no {kind} {name!r}, a file of figures, as each is one of code, {code}; {exist}."
    place = f"{folder.name}/{called}{suffix} in the folder that {OWN_SPECS} names"
    do = f"Allowed is {called}, once the file is {place}"
    return f"There is no {kind} {name!r}, as it goes by a name and not by a path. {do}; {exist}."


def own_in(folder: Path) -> str:
    """Return the words on a user's own file in place of those in `folder`."""
    made = " (foreserve model add CONFIG.json --save NAME makes one)" if folder.name == MODELS else ""
    return f"; or one of yours, a file in {folder.name}/ in the folder that {OWN_SPECS} names{made}"


def unknown(kind: str, name: str, names: Sequence[str], also: str = "", own: str = "") -> UnknownName:
    """Return the error for a name that there is not, with those that there are, and the nearest of them; or with
    what is allowed, `also`, of names like it; and what is allowed of one's `own`."""
    near = [each for each in nearest(name, names) if not also or is_a_letter_off(name, each)]
    exist = ", ".join(names) or "none"
    sentence = f"There is no {kind} {name!r}{hint(near, mark='')}; those that exist are {exist}{also}{own}."
    return UnknownName(sentence, kind)


def read_named(form: type[Spec], kind: str, name: str, folder: Path) -> Spec:
    """Return the spec called `name` in `folder`. Raise UnknownName or SpecError."""
    check_name(name, kind, folder)
    return read_spec(form, path_of(name, folder))


def read_spec(form: type[Spec], path: Path) -> Spec:
    """Read the dataclass `form`, whose fields are `Annotated` with `ValueRule`, from the file at `path`. Raise
    SpecError.

    A key whose field has a default may be left out, and then needs no source.
    """
    spec: Spec = _spec(form, _spec_file(path))
    return spec


@lru_cache(maxsize=256)
def _spec(form: type[Spec], file: "_SpecFile") -> Spec:
    """Return what a file says: parsed once for as long as its text is the same, as each device is made of several."""
    return file.read(form)


def read_word(path: Path, key: str, default: str) -> str:
    """Return the text of one key of the file at `path`; `default` if it has none, or something else than text. Raise
    SpecError for a file that can't be read."""
    word = _spec_file(path).parse().get(key, default)
    return word if isinstance(word, str) else default


def refuse_key(path: Path, key: str, what: str) -> NoReturn:
    """SpecError: the file at `path`, the line of `key`, and `what` is wrong with it, without the full stop."""
    _spec_file(path).refuse(key, what)


def documents_of(path: Path) -> list[str]:
    """Return the documents that the figures of the file at `path` are from, as their sources begin, each once and in
    order; what is estimated is from "Estimate". Raise SpecError for a file that can't be read."""
    sources = _spec_file(path).parse().get(SOURCES, {})
    return list(dict.fromkeys(re.split(r"[,:;(]", text, maxsplit=1)[0].strip() for text in sources.values()))


def _spec_file(path: Path) -> "_SpecFile":
    """Return the file at `path`, as it is now. Raise SpecError."""
    try:
        return _SpecFile(path, path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{_name(path)} can't be read; allowed is a TOML file in UTF-8: {error}.") from None


def _name(path: Path) -> str:
    return "/".join(path.parts[-2:])


@dataclasses.dataclass(frozen=True)
class _SpecFile:
    """One TOML file, with its text at hand to say on which line a key is."""

    path: Path
    text: str

    def read(self, form: type[Spec]) -> Spec:
        values = self.parse()
        sources = values.pop(SOURCES, {})
        hints = get_type_hints(form, include_extras=True)
        expected = {field.name: get_args(hints[field.name]) for field in dataclasses.fields(form)}
        self._check_keys(values, list(expected), _required(form))
        figures = {key: self._value(key, values[key], *expected[key]) for key in expected if key in values}
        self._check_sources(sources, [key for key, value in figures.items() if not isinstance(value, str)])
        try:
            return form(**figures)
        except Contradiction as error:
            self._contradiction(error, values)

    def parse(self) -> dict[str, Any]:
        """Return the keys of the file and their values."""
        try:
            return tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:  # of TOML, or a number of thousands of digits
            raise SpecError(f"{_name(self.path)}: not valid TOML: {error}.") from None

    def _contradiction(self, error: Contradiction, values: dict[str, Any]) -> NoReturn:
        if error.key not in values:
            self.refuse(None, f"the key {error.key} is missing; required is {error.allowed}")
        self.refuse(error.key, f"{error.key} is {values[error.key]!r}; allowed is {error.allowed}")

    def _check_keys(self, values: dict[str, Any], expected: list[str], required: list[str]) -> None:
        for key in values:
            if key not in expected:
                near = hint(nearest(key, expected), mark="")
                self.refuse(key, f"unknown key {key}{near}; allowed are {', '.join(expected)} and [{SOURCES}]")
        for key in required:
            if key not in values:
                self.refuse(None, f"the key {key} is missing; required are {', '.join(required)}")

    def _value(self, key: str, value: Any, base: type, allowed: ValueRule) -> Any:
        if not (_is(value, base) and allowed.accepts(value)):
            self.refuse(key, f"{key} is {value!r}; allowed is {allowed.words}")
        if base is int and value > MOST:
            self.refuse(key, f"{key} is {value}; allowed is {allowed.words}, and of at most {MOST:,}")
        return base(value)

    def _check_sources(self, sources: Any, figures: list[str]) -> None:
        if not isinstance(sources, dict):
            self.refuse(SOURCES, f"{SOURCES} is {sources!r}; allowed is a table that says where each figure is from")
        for key in figures:
            if not (isinstance(sources.get(key), str) and sources[key].strip()):
                self.refuse(key, f"{key} has no source; allowed is a figure with an entry of text in [{SOURCES}]")
        for key in sources:
            if key not in figures:
                what = f"a source for {key}, which is no figure of this file; allowed are {', '.join(figures)}"
                self.refuse(key, what, in_sources=True)

    def refuse(self, key: str | None, what: str, in_sources: bool = False) -> NoReturn:
        """SpecError: the file's name, the line of `key` if there is one, and `what` is wrong, without the full stop."""
        line = f", line {self._line(key, in_sources)}" if key else ""
        raise SpecError(f"{_name(self.path)}{line}: {what}.")

    def _line(self, key: str, in_sources: bool) -> int:
        """Return the line, from 1, where `key` (or the table of that name) stands, before or after the [sources]
        head."""
        lines = self.text.splitlines()
        heads = [i for i, line in enumerate(lines) if re.match(rf"\s*\[{SOURCES}\]", line)]
        first = heads[0] if heads and in_sources else 0
        pattern = re.compile(rf"""\s*\[*["']?{re.escape(key)}["']?\s*[=.\]]""")
        return next((i + 1 for i, line in enumerate(lines) if i >= first and pattern.match(line)), first + 1)


def _required(form: "type[DataclassInstance]") -> list[str]:
    """Return the keys of `form`, a dataclass, that have no default."""
    return [field.name for field in dataclasses.fields(form) if field.default is dataclasses.MISSING]


def _is(value: Any, base: type) -> bool:
    """Tell whether a TOML value is a `base`; a whole number will do for a float, a bool for none, inf and nan never. A
    tuple is a list of numbers."""
    if base is float:
        return type(value) in (int, float) and (value == 0 or SMALLEST < abs(value) < LARGEST)  # false for nan
    if get_origin(base) is tuple:
        return type(value) is list and all(_is(each, float) for each in value)
    return type(value) is base
