"""What each request asks: a prompt of about so many tokens, and how many tokens it wants back.

Random prompts are made of words so common that each is one token, also in the bundled model's small vocabulary, so no
tokenizer is needed; the report takes the true lengths from the server's `usage`. Random words also keep prefix caches
from hitting.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import numpy as np

from serving.load.options import LoadOptions, OptionError
from serving.workload.ask import Ask

_COMMON = """
all always another any are available been being block bound call can change client close color common complete
connection count create current data directory does either end equal example except flag follow found full function
handle help instead into length list local lock look man mark mean member name need normal object off only option
output pair pass position process read request result return run same sample section set should sign simple some store
stream string such system test than then through top try two until use was way week when where which without would
write you your
"""
WORDS = _COMMON.split()


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request to send. `arrival_s` counts from the start of the run, on the clock that the report uses."""

    arrival_s: float
    prompt: str
    max_tokens: int
    messages: tuple[tuple[str, str], ...] = ()  # The prompt by who says it; none: the user says all of it.
    headers: tuple[tuple[str, str], ...] = ()  # In gRPC, metadata.
    api_key: str = ""  # "": the run's.
    ask: Ask | None = None  # What it is in its workload file, if there is one.
    seed: int | None = None  # None: the server chooses.

    @property
    def slo(self) -> str:
        """The SLO class that it names, or ""."""
        return self.ask.slo if self.ask else ""

    @property
    def name(self) -> str:
        """Its name in the workload file, or ""."""
        return self.ask.id if self.ask else ""


def requests(options: LoadOptions, times: Iterable[float]) -> Iterator[LoadRequest]:
    """The run's requests in order of arrival, made one by one so that long runs need not hold every prompt."""
    lengths, prompts = np.random.default_rng([options.seed or 0, 1]), _prompts(options)
    return (
        LoadRequest(arrival_s, next(prompts), _length(options.output_len, options.range_ratio, lengths))
        for arrival_s in times
    )


def _prompts(options: LoadOptions) -> Iterator[str]:
    if options.prompts:
        return cycle(read_prompts(options.prompts))
    rng = np.random.default_rng([options.seed or 0, 2])
    return (random_prompt(_length(options.input_len, options.range_ratio, rng), rng) for _ in repeat(None))


def random_prompt(n_words: int, rng: np.random.Generator) -> str:
    """`n_words` random common words."""
    return " ".join([WORDS[i] for i in rng.integers(len(WORDS), size=n_words).tolist()])


def read_prompts(path: Path) -> list[str]:
    """One prompt a line: as it stands, or from the `prompt` of a JSON object if the file ends in .jsonl."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--prompts {path} cannot be read ({error}).") from error
    if not lines:
        raise OptionError(f"--prompts {path} holds no prompts; it needs at least one line that is not empty.")
    if path.suffix == ".jsonl":
        return [_prompt_of(line, f"{path}, prompt {n}") for n, line in enumerate(lines, start=1)]
    return lines


def body(request: LoadRequest, options: LoadOptions, model: str) -> dict[str, Any]:
    """The request in OpenAI's JSON; gRPC's messages mirror it field for field."""
    fields: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens, "stream": True}
    if options.endpoint == "chat":
        said = request.messages or (("user", request.prompt),)
        fields["messages"] = [{"role": role, "content": content} for role, content in said]
    else:
        fields["prompt"] = request.prompt
    fields["stream_options"] = {"include_usage": True}
    if not options.respect_eos:
        # vLLM's extensions: every answer has the asked length, so that runs can be compared.
        fields |= {"ignore_eos": True, "min_tokens": request.max_tokens}
    if request.seed is not None:
        fields["seed"] = request.seed
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    return fields | options.extra_body


def _length(mean: int, ratio: float, rng: np.random.Generator) -> int:
    low, high = round(mean * (1 - ratio)), round(mean * (1 + ratio))
    return max(1, int(rng.integers(low, high + 1)))


def _prompt_of(line: str, where: str) -> str:
    try:
        prompt = json.loads(line)["prompt"]
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f'--prompts {where}: expected a JSON object like {{"prompt": "..."}}.') from error
    if not isinstance(prompt, str):
        raise OptionError(f"--prompts {where}: `prompt` must be a string.")
    return prompt
