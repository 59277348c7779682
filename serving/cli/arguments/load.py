"""The arguments of `foreserve load`: an option for each key of `LoadOptions`."""

import argparse
import json
from typing import Any

from serving.cli.arguments.client import add_client, name_url, trust_of
from serving.cli.parser import name_by_value
from serving.load.options import REPLACED, LoadOptions, OptionError, Slos, load_keys, option_of
from serving.scenario.key import Key
from serving.scenario.kind import Kind
from serving.scenario.options import named_path

# Where `--help` has each.
GROUPS = {
    "endpoint": ("url", "endpoint", "model", "timeout_s"),
    "arrivals": ("rate_per_s", "arrivals", "num_requests", "duration_s", "max_concurrency", "seed"),
    "requests": (
        *("workload", "input_len", "output_len", "range_ratio", "prompts"),
        *("respect_eos", "temperature", "extra_body"),
    ),
    "results": ("metrics_url",),
}
SHORT = {"num_requests": "-n"}
NUMBERS: dict[Kind, tuple[type, str]] = {Kind.WHOLE: (int, "N"), Kind.NUMBER: (float, "R")}
LIMITS = {"ttft_s": "time to first token", "tpot_s": "time per output token", "e2e_s": "whole request"}


def add_load(parser: argparse.ArgumentParser) -> None:
    """Add the options of a load run. Those that are not given are None."""
    keys, default = load_keys(), LoadOptions()
    groups = {title: parser.add_argument_group(title) for title in GROUPS}
    name_url(parser)
    name_by_value(parser, "--url", lambda value: [value] if ":" in value else [])
    add_client(groups["endpoint"])
    for title, names in GROUPS.items():
        for name in names:
            names_of = filter(None, (option_of(name), SHORT.get(name)))
            shown = _help(keys[name], getattr(default, name))
            groups[title].add_argument(*names_of, dest=name, help=shown, **_shape(name, keys[name]))
    for name, what in LIMITS.items():
        groups["results"].add_argument(_limit(name), type=float, metavar="MS", help=f"limit for goodput: {what}")


def options_from(args: argparse.Namespace) -> LoadOptions:
    """Return the options that the command line asks for. Raise OptionError, or UsageError."""
    given = {name: getattr(args, name) for name in load_keys() if getattr(args, name) is not None}
    for name in REPLACED:
        if args.workload and name in given:
            raise OptionError(
                f"{option_of(name)} cannot go with --workload, whose file says that: leave one of them out."
            )
    if "prompts" in given and "input_len" in given:
        raise OptionError("--input-len cannot go with --prompts, whose file says the prompts: leave one of them out.")
    if "extra_body" in given:
        given["extra_body"] = _json_object(args.extra_body)
    limits_ms = {name: getattr(args, _limit(name)[2:].replace("-", "_")) for name in LIMITS}
    slos = Slos(**{name: ms / 1e3 for name, ms in limits_ms.items() if ms is not None})
    # The endpoint's address, unless it is only its metrics that are encrypted.
    url, metrics_url = given.get("url", LoadOptions().url), given.get("metrics_url", "")
    trust = trust_of(args, metrics_url if metrics_url.startswith("https:") else url)
    return LoadOptions(**given, slos=slos, api_key=args.api_key or None, trust=trust)


def _shape(name: str, declared: Key) -> dict[str, Any]:
    """Return how argparse reads an option. Choices and bounds are checked by `LoadOptions`."""
    if declared.kind is Kind.FLAG:
        return {"action": "store_true", "default": None}
    if declared.kind in NUMBERS:
        units = {"_per_s": "PER_S", "_s": "S"}
        unit = next((unit for suffix, unit in units.items() if name.endswith(suffix)), None)
        parse, letter = NUMBERS[declared.kind]
        return {"type": parse, "metavar": unit or letter}
    if declared.kind is Kind.FILE:
        return {"type": named_path, "metavar": "FILE"}
    if declared.choices:
        return {"metavar": "|".join(declared.choices)}
    return {"metavar": {"url": "URL", "metrics_url": "URL", "model": "NAME", "extra_body": "JSON"}[name]}


def _help(declared: Key, default: Any) -> str:
    if default is None or default is False or default == {}:
        return declared.help
    return f"{declared.help} (default: {f'{default:g}' if isinstance(default, float) else default})"


def _limit(name: str) -> str:
    return f"--slo-{name.removesuffix('_s')}-ms"


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError(f"--extra-body must be a JSON object, not {text!r}.")
    return value
