"""Repeating a study: its file, its settings, and the versions of what ran it."""

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from serving.scenario.listen_options import KEYS
from serving.study.report.markup import paragraph, verbatim
from serving.study.results import Results
from serving.study.store import about, places_in


def repeat(results: Results) -> str:
    """Return the section as HTML."""
    study = results.study
    told = about(study)
    in_small = f" --requests {study.requests}" if study.requests else ""
    law = f" --law {study.law}" if study.law else ""
    version = told["versions"]["foreserve"]
    command = f"foreserve study {study.name}.toml{in_small}{law}"
    lines = [f"{name} = {json.dumps(value, default=str, ensure_ascii=False)}" for name, value in told.items()]
    return (
        "<h2>The exact scenario</h2>"
        + paragraph(f"{command} runs it again; what is not said is as foreserve {version} has it.")
        + f"<h3>{escape(study.name)}.toml</h3>"
        + verbatim(_blotted(without_keys(study.text, study.scenario, *study.variants.values()), places_in(study)))
        + "<h3>What it comes to, and the versions that ran it</h3>"
        + verbatim("\n".join(lines))
    )


def without_keys(text: str, *settings: Mapping[str, Any]) -> str:
    """Return a study's file, with what its scenario and its variants have of keys blotted out wherever it stands
    between quotes: a report is passed on."""
    for said in (each.get(name, ()) for each in settings for name in KEYS):
        for key in (said,) if isinstance(said, str) else said:
            text = re.sub(rf"""(["']){re.escape(key)}\1""", r"\1***\1", text)
    return text


def _blotted(text: str, places: Mapping[str, str]) -> str:
    """Return the text with each of these API keys blotted out where it stands by itself, as a workload names it."""
    for key in places:
        text = re.sub(rf"(?<![\w-]){re.escape(key)}(?![\w-])", "***", text)
    return text
