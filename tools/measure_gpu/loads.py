"""Loads: requests that come at their times, in real time, and when their tokens came."""

from collections import deque
from collections.abc import Sequence
from time import perf_counter, sleep

from tools.measure_gpu.engine import Engine
from tools.measure_gpu.tables import Call, ServedCall


def served(engine: Engine, calls: Sequence[Call]) -> list[ServedCall]:
    """Serve a load, and return its requests in order of arrival. A token's time is when the step that gave it returned;
    a request that comes while a step runs is taken in after it."""
    prompts = deque(engine.prompt(call.prompt_tokens) for call in calls)
    coming, names = deque(calls), []
    first_s: dict[str, float] = {}
    last_s: dict[str, float] = {}
    began_s = perf_counter()
    while coming or engine.llm.llm_engine.has_unfinished_requests():
        while coming and coming[0].arrival_s <= perf_counter() - began_s:
            names.append(engine.add(prompts.popleft(), coming.popleft().output_tokens))
        if not engine.llm.llm_engine.has_unfinished_requests():
            sleep(max(0.0, coming[0].arrival_s - (perf_counter() - began_s)))
            continue
        came = engine.step()
        now_s = perf_counter() - began_s
        for name in came:
            first_s.setdefault(name, now_s)
            last_s[name] = now_s
    return [ServedCall(call, first_s[name], last_s[name]) for call, name in zip(calls, names, strict=True)]
