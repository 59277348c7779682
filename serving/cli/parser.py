"""Parser of the command line that names the nearest option to one that there is not, or the one that is meant by what
other commands call otherwise, or by a value without its option."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NoReturn

from device_model.specs.nearest_name import hint, nearest
from serving.nearest_name import meant

# Of argparse's registries of a parser, which its groups of options share.
OTHERWISE, VALUES = "otherwise", "values"


def name_otherwise(parser: argparse._ActionsContainer, option: str, others: Sequence[str]) -> None:
    """Let the hint on each of `others`, as other commands call it, be `option`."""
    for other in others:
        parser.register(OTHERWISE, other, option)


def name_by_value(parser: argparse._ActionsContainer, option: str, values_like: Callable[[str], Iterable[str]]) -> None:
    """Let the hint on an argument without an option be `option` where one of its values is nearest; `values_like` gives
    those that an argument can be meant by."""
    parser.register(VALUES, option, values_like)


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser`, of which the parsers of commands are too."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse as `ArgumentParser` does. An option that a command has not is told with the nearest one that it has."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._of(found).refuse_option(unknown)
        return found

    def add_subparsers(self, **options: Any) -> Any:
        """Add commands: of one that says no more about itself `--help` tells what the list of commands does."""
        added: Any = super().add_subparsers(**options)
        make = added.add_parser

        def add_parser(name: str, **told: Any) -> Any:
            about = str(told.get("help", ""))
            return make(name, **({"description": f"{about[:1].upper()}{about[1:]}."} if about else {}) | told)

        added.add_parser = add_parser
        return added

    def refuse_option(self, unknown: Sequence[str]) -> NoReturn:
        """End with a usage error about arguments that are unknown."""
        option = next((each.partition("=")[0] for each in unknown if each.startswith("-")), "")
        told = self._meant_by_option(option) if option else self._meant_by_value(unknown[0])
        self.error(f"unrecognized arguments: {' '.join(unknown)}{told}")

    def _meant_by_option(self, option: str) -> str:
        return meant(self._registries.get(OTHERWISE, {}).get(option, option), self._option_string_actions)

    def _meant_by_value(self, value: str) -> str:
        values = {option: [*like(value)] for option, like in self._registries.get(VALUES, {}).items()}
        near = nearest(value, chain(*values.values()))
        return hint([option for option, names in values.items() if not set(near).isdisjoint(names)])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check that a value is one of an action's choices; a command has a nearest one too."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            told = meant(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{told}") from error

    def _of(self, found: argparse.Namespace) -> "Parser":
        """Return the parser of the command that was asked for."""
        parser = self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and (name := getattr(found, action.dest, None)):
                parser = action.choices[name]._of(found)
        return parser
