"""Prompts from a file, one a line."""

import json
from pathlib import Path

from serving.load.options import OptionError


def read_prompts(path: Path) -> list[str]:
    """Return one prompt a line: as it stands, or the `prompt` of a JSON object if the file ends in .jsonl.

    Raise OptionError for a file that cannot be read, or has no prompts.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--prompts {path} cannot be read ({error}).") from error
    if not lines:
        raise OptionError(f"--prompts {path} holds no prompts; it needs at least one line that is not empty.")
    if path.suffix == ".jsonl":
        return [_prompt_of(line, f"{path}, prompt {n}") for n, line in enumerate(lines, start=1)]
    return lines


def _prompt_of(line: str, where: str) -> str:
    try:
        prompt = json.loads(line)["prompt"]
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f'--prompts {where}: expected a JSON object like {{"prompt": "..."}}.') from error
    if not isinstance(prompt, str):
        raise OptionError(f"--prompts {where}: `prompt` must be a string.")
    return prompt
