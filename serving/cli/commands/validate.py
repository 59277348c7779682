"""`foreserve validate`: compare the device model's predictions with the papers' figures."""

import argparse
from typing import TYPE_CHECKING

from serving.cli.arguments.report import add_json, add_law, tell, tell_written
from serving.scenario.options import named_path, positive
from serving.usage_error import UsageError

if TYPE_CHECKING:
    from device_model.specs.law import Law

# Files of device_model/validation/papers, which are read when they are needed; a test compares.
SYSTEMS = ("elmoe3d", "stratum")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    validate = commands.add_parser("validate", help="what the device model predicts, beside what the papers print")
    validate.add_argument("--system", choices=SYSTEMS, default=SYSTEMS[0], help=f"whose paper (default: {SYSTEMS[0]})")
    validate.add_argument(
        "--reference", type=named_path, metavar="FILE.csv", help="cells with the columns of its Table 3"
    )
    add_law(validate, default=None)
    add_json(validate)
    validate.add_argument(
        "--cross-validate",
        type=positive,
        metavar="K",
        help="instead, fit anew without each of K parts of the cells, each model and each HB size, and predict it",
    )
    validate.add_argument("--plots", type=named_path, metavar="DIR", help="draw them there too, as PNG files")
    validate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve validate`; return its exit code."""
    from device_model.specs.law import Law
    from serving.reports import published_figures, validate

    if args.system != SYSTEMS[0]:
        _refuse_options_of_table_3(args)
        figures = published_figures.published(args.system)
        tell(args.json, figures, published_figures.to_json, published_figures.show)
        return 0
    law = Law(args.law or Law.REALISABLE)
    if args.cross_validate is not None:
        return _cross_validate(args, law)
    found = validate.Validation(args.reference, law)
    if args.plots is not None:
        tell_written(validate.draw(found, args.plots), "Drawn")
    tell(args.json, found, validate.to_json, validate.show)
    return 0


def _refuse_options_of_table_3(args: argparse.Namespace) -> None:
    """Raise UsageError for the first option that is about the other paper."""
    for name in ("law", "reference", "cross_validate", "plots"):
        if (value := getattr(args, name)) is not None:
            option = f"--{name.replace('_', '-')}"
            allowed = f"allowed is --system {SYSTEMS[0]}, whose Table 3 {option} is about"
            raise UsageError(f"{option} is {value} with --system {args.system}; {allowed}.")


def _cross_validate(args: argparse.Namespace, law: "Law") -> int:
    from rich.console import Console

    from serving.reports import cross_validation

    if args.plots is not None:
        raise UsageError("--plots is given with --cross-validate; allowed is one of them.")
    found = cross_validation.cross_validated(args.reference, law, args.cross_validate, Console(stderr=True))
    tell(args.json, found, cross_validation.to_json, cross_validation.show)
    return 0
