"""vLLM's results: the JSON that `vllm bench serve --save-result` and `vllm bench latency --output-json` write.

Fields as of vLLM 0.32.0 (vllm/benchmarks/serve.py and latency.py).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from device_model.specs.spec import SpecError
from device_model.validation.measured.measurement import Measurement, Passes

MS = 1e-3
# Figures beyond are nothing that somebody measured.
TINY, HUGE = 1e-9, 1e12
LATENCY, SERVE = "avg_latency", "median_itl_ms"
"""The fields that tell the two apart."""


class LatencyShape(NamedTuple):
    """What `vllm bench latency` was called with: its result does not say. It has each prompt computed, and `output`
    tokens made, of which the prompt's pass yields the first."""

    batch: int
    input: int
    output: int


def read_results(path: Path, shape: LatencyShape | None) -> list[Measurement]:
    """Return the measurements of a file with one result, or several (`--append-result`). `shape` is that of a latency
    benchmark. Raise SpecError for a file or a result that says too little."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} can't be read; allowed is a JSON file in UTF-8: {error}.") from None
    found = []
    for number, result in enumerate(_results(text, path), 1):
        found += _measured(result, f"{path}, result {number}", shape)
    return found


def _results(text: str, path: Path) -> list[Any]:
    decoder, results, end = json.JSONDecoder(), [], 0
    text = text.strip()
    while end < len(text):
        try:
            result, end = decoder.raw_decode(text, end)
        except json.JSONDecodeError as error:
            raise SpecError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}.") from None
        except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
            raise SpecError(f"{path}: not what vLLM writes: {error}.") from None
        results.append(result)
        end += len(text[end:]) - len(text[end:].lstrip())
    return results


def _measured(result: Any, where: str, shape: LatencyShape | None) -> list[Measurement]:
    if isinstance(result, dict) and LATENCY in result:
        return [_latency(result, where, shape)]
    if isinstance(result, dict) and SERVE in result:
        return _serving(result, where)
    raise SpecError(
        f"{where}: there is neither {LATENCY} nor {SERVE}; allowed is what `vllm bench latency --output-json` or "
        "`vllm bench serve --save-result` writes."
    )


def _latency(result: Mapping[str, Any], where: str, shape: LatencyShape | None) -> Measurement:
    if shape is None:
        raise SpecError(
            f"{where}: vLLM does not write down what a latency benchmark ran; allowed is the file with it, as in "
            "'FILE.json: batch=8, input=1024, output=128'."
        )
    passes = (Passes(shape.input, 0), Passes(1, shape.input, shape.output - 1))
    seconds = _number(result, LATENCY, where)
    return Measurement(f"{where}, {LATENCY}", shape.batch, passes[: 1 + (shape.output > 1)], seconds)


def _serving(result: Mapping[str, Any], where: str) -> list[Measurement]:
    """Return the median time between tokens, that of a step of as many requests as were let in at once, each in the
    middle of its output; and, of one at a time, the median time to a first token, that of a prompt."""
    batch, completed = result.get("max_concurrency"), _number(result, "completed", where)
    if not isinstance(batch, int) or batch < 1 or str(result.get("request_rate")) != "inf" or completed < batch:
        raise SpecError(
            f"{where}: max_concurrency is {batch!r}, request_rate {result.get('request_rate')!r} and completed "
            f"{completed:g}, which does not tell the batch; allowed is `--max-concurrency N` with at least N prompts, "
            "and no `--request-rate`."
        )
    if "spec_decode_acceptance_rate" in result:
        raise SpecError(f"{where}: it speculated; allowed is plain decoding, which the emulated GPU does.")
    prompt, output = (round(_number(result, f"total_{kind}_tokens", where) / completed) for kind in ("input", "output"))
    if not prompt:
        raise SpecError(
            f"{where}: total_input_tokens is {result['total_input_tokens']} of {completed:g} completed; allowed are "
            "prompts of a token or more."
        )
    step_s = _number(result, SERVE, where) * MS
    found = [Measurement(f"{where}, {SERVE}", batch, (Passes(1, prompt + output // 2),), step_s)]
    if batch == 1 and "median_ttft_ms" in result:
        first_s = _number(result, "median_ttft_ms", where) * MS
        found.append(Measurement(f"{where}, median_ttft_ms", 1, (Passes(prompt, 0),), first_s))
    return found


def _number(result: Mapping[str, Any], key: str, where: str) -> float:
    value = result.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not TINY <= value <= HUGE:
        raise SpecError(f"{where}: {key} is {value!r}; allowed is a number above 0, from {TINY:g} to {HUGE:g}.")
    return float(value)
