"""Runs prompts through the token model in vLLM, and keeps what its routers chose for each token."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from device_model.step import IntArray
from serving.token_source.routes import format_of
from serving.token_source.vllm_args import prepare_environment

CONTEXT = 2048


class Profiled(NamedTuple):
    """A request of a topic: its answer, and the routes [tokens, layers, top_k] of its tokens, but for the last, with
    those of the prompt first: so many."""

    topic: str
    prompt: str
    answer: str
    all_routes: IntArray
    prompt_tokens: int

    @property
    def routes(self) -> IntArray:
        """Those that led to the answer: the first token of it was computed with the last one of the prompt."""
        return self.all_routes[self.prompt_tokens - 1 :]


def profile(token_model: str, asked: Sequence[tuple[str, str]], max_tokens: int, seed: int) -> list[Profiled]:
    """Answer prompts, given as (topic, prompt), with temperature 1, seeded. SpecError for a model without experts."""
    format_of(token_model)
    prepare_environment(token_model)
    from vllm import LLM, SamplingParams

    from serving.token_source.routed_worker import RoutedWorker
    from serving.token_source.scheduler import RunAheadScheduler

    llm = LLM(
        token_model,
        enforce_eager=True,
        dtype="float32",
        max_model_len=CONTEXT,
        enable_prefix_caching=False,
        enable_chunked_prefill=False,
        worker_cls=RoutedWorker.__module__ + "." + RoutedWorker.__qualname__,
        scheduler_cls=RunAheadScheduler.__module__ + "." + RunAheadScheduler.__qualname__,
    )
    params = [SamplingParams(max_tokens=max_tokens, seed=seed + index) for index in range(len(asked))]
    answers = llm.chat([[{"role": "user", "content": prompt}] for _, prompt in asked], params, use_tqdm=False)
    found = []
    for (topic, prompt), answer in zip(asked, answers, strict=True):
        output = answer.outputs[0]
        routes = np.asarray(output.routed_experts).astype(np.int64)
        found.append(Profiled(topic, prompt, output.text, routes, len(answer.prompt_token_ids)))
    return found
