"""Parser of the command line that names the nearest option to one that there is not."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from serving.nearest_name import meant


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
        hint = meant(option, self._option_string_actions) if option else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check that a value is one of an action's choices; a command has a nearest one too."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            hint = meant(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{hint}") from error

    def _of(self, found: argparse.Namespace) -> "Parser":
        """Return the parser of the command that was asked for."""
        parser = self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and (name := getattr(found, action.dest, None)):
                parser = action.choices[name]._of(found)
        return parser
