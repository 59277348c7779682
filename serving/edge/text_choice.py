"""Text choice: decides whether vLLM makes a request's text now, or the request gets recorded text."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from vllm import SamplingParams

from serving.call import Call, current_call
from serving.cluster.observer import EdgeObserver
from serving.edge.body_bounds import IN_BATCH, is_batch
from serving.flight import Flight
from serving.recordings.answers import Answer, AnswerLimits, Answers
from serving.recordings.source_load import SourceLoad
from serving.scenario.scenario import AUTO_TEXT, RECORDED_TEXT, VLLM_TEXT
from serving.types import NEVER, Count, Request, StepRecord

HEADER = "x-foreserve-text"
# Whoever says how many tokens there are to be measures when they come, and a prompt that is cached halves the lead.
# Who leaves that to the model reads them, and many an answer is half as long as usual.
MARGIN = 2
# Real seconds for which the forecast of a stream holds: it looks at each device, and crowds come all at once.
SAME_S = 0.05
# Of what says how the tokens are chosen, whatever is not so needs the model itself.
NEUTRAL = {
    "seed": None,
    "logprobs": None,
    "prompt_logprobs": None,
    "logprob_token_ids": None,
    "prompt_logprob_token_ids": None,
    "repetition_detection": None,
    "thinking_token_budget": None,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": None,
    "structured_outputs": None,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}


class TextNeeds(NamedTuple):
    """What a request asks of its text: that the `model` makes it now, or that it is sampled `by_chance` at least; how
    many tokens an answer has at the `least`, and how many `streams` its call begins together."""

    model: bool
    by_chance: bool
    least: Count = 0
    streams: Count = 1


class TextChoice(EdgeObserver):
    """Chooses for each call at its admission, by the source's number of streams and whether it keeps up."""

    def __init__(self, text: str, answers: Answers | None, load: SourceLoad) -> None:
        """`text`: the scenario's key; `answers`: the recorded ones, if any may be given."""
        self._text, self._answers, self._load = text, answers, load
        self._device: dict[str, int] = {}

    def choose(self, params: SamplingParams, cost: tuple[float, float] | None, streams: int = 1) -> bool:
        """Decide, and record in the call, which begins so many `streams`, whether its text is recorded; return that.
        `cost`: the fit of the source's step times, if it has reported one."""
        needs = needs_model(params)
        if (call := current_call()) is None:
            # Of a front end that is not ours: whether it needs the model (tools, echo) is known there alone.
            return self._text == RECORDED_TEXT and self._answers is not None and not needs
        return self.choose_for(call, TextNeeds(needs, params.temperature > 0, least_tokens(params), streams), cost)

    def choose_for(self, call: Call, needs: TextNeeds, cost: tuple[float, float] | None) -> bool:
        """Decide as `choose` does, by what a call's first request asks of its text."""
        if call.recorded is None:
            may_be = self._answers is not None and not call.needs_model and not needs.model
            # What is chosen without chance is the same each time: text of two sources would not be.
            auto = self._text == AUTO_TEXT and needs.by_chance
            call.recorded = may_be and (self._text == RECORDED_TEXT or (auto and self._is_behind(needs, cost)))
            call.answer[HEADER] = RECORDED_TEXT if call.recorded else VLLM_TEXT
            if not call.recorded:
                # Others are judged before its streams begin, and some never do.
                self._expect(call, needs.streams)
                call.when_ended(lambda: self._expect(call, -call.coming))
        return call.recorded

    def _expect(self, call: Call, more: int) -> None:
        """Count so many `more` of a call's streams as coming; below 0, so many less."""
        call.coming += more
        self._load.coming += more

    def _is_behind(self, needs: TextNeeds, cost: tuple[float, float] | None) -> bool:
        self._load.learn(*(cost or ()))
        assert self._answers is not None
        tokens = max(MARGIN * needs.least, self._answers.usual_tokens // MARGIN)
        return self._load.behind(time.monotonic(), tokens, needs.streams)

    def answer(self, request: Request, params: SamplingParams) -> Answer:
        """Return the whole recorded text of a request for which `choose` returned True."""
        assert self._answers is not None
        # At its end an answer stops for no reason, for vLLM looks for that first.
        stop_ids = {*(params.stop_token_ids or ())} - {params.eos_token_id}
        limits = AnswerLimits(params.min_tokens, params.ignore_eos, stop_ids)
        return self._answers.answer(request, limits)

    def on_begin(self, flight: Flight) -> None:
        if flight.recorded is None:
            self._begin(flight)
            if flight.call is not None and flight.call.coming:
                self._expect(flight.call, -1)

    def _begin(self, flight: Flight) -> None:
        self._device[flight.request.id] = flight.device
        self._load.begin(flight.device)

    def on_move(self, flight: Flight) -> None:
        if flight.request.id in self._device:
            self.on_finish(flight)
            self._begin(flight)

    def on_finish(self, flight: Flight) -> None:
        if (device := self._device.pop(flight.request.id, None)) is not None:
            self._load.end(device)

    def on_step(self, record: StepRecord) -> None:
        if record.underruns:
            self._load.underrun(time.monotonic())


def needs_model(params: SamplingParams) -> bool:
    """Tell whether a request asks for what recorded text can't have: that this model, now, chose these tokens so."""
    return any(getattr(params, name) not in (neutral, []) for name, neutral in NEUTRAL.items())


def least_tokens(params: SamplingParams) -> int:
    """Return the tokens that an answer has at least."""
    return (params.max_tokens or 0) if params.ignore_eos else params.min_tokens


def next_stream_of(
    next_stream: Callable[[float], tuple[float, float]], now: Callable[[], float], speed: float
) -> Callable[[], tuple[float, float]]:
    """Return `next_stream` at the emulated time `now`, in real seconds, and tokens per real second; what was told less
    than `SAME_S` ago holds still."""
    told, told_at_s = (0.0, 0.0), -NEVER

    def real() -> tuple[float, float]:
        nonlocal told, told_at_s
        if (at_s := now()) - told_at_s >= SAME_S * speed:
            first_s, tokens_per_s = next_stream(at_s)
            told, told_at_s = (first_s / speed, tokens_per_s * speed), at_s
        return told

    return real


def rate_of(tokens_per_s: Callable[[int, int], float], speed: float) -> Callable[[int, int], float]:
    """Return `tokens_per_s`, by device and streams, in tokens per real second."""
    return lambda device, streams: speed * tokens_per_s(device, streams)


def prompts_of(request: Any) -> int:
    """Return the number of prompts, or conversations, of a request to vLLM's servers."""
    fields = {field: getattr(request, field, None) for field in IN_BATCH}
    return next((len(each) for field, each in fields.items() if is_batch(each, field)), 1)


def asks_model(request: Any) -> bool:
    """Tell whether a request to vLLM's servers needs the model itself in ways that its sampling parameters don't show:
    tools, or its prompt echoed."""
    return bool(getattr(request, "tools", None) or getattr(request, "echo", False))
