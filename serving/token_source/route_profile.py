"""Profiles of routes: prompts run through the token model in vLLM, with its routers' choices for each token."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from device_model.step import IntArray
from serving.process.run_folder import run_folder
from serving.token_model.route_format import format_of
from serving.token_source.vllm_args import SECOND_RUNNER, on_cpu, prepare_environment

CONTEXT = 2048


class RouteProfile(NamedTuple):
    """A request of a topic with its answer, as text and as `tokens`, and whether it `finished` by itself.

    `all_routes` [tokens, layers, top_k] are of all tokens but the last, those of the prompt, `prompt_ids`, first.
    """

    topic: str
    prompt: str
    answer: str
    all_routes: IntArray
    prompt_ids: list[int]
    tokens: list[int]
    finished: bool

    @property
    def routes(self) -> IntArray:
        """Routes that led to the answer, whose first token was computed with the prompt's last one."""
        return self.all_routes[len(self.prompt_ids) - 1 :]


def profile(token_model: str, asked: Sequence[tuple[str, str]], max_tokens: int, seed: int) -> list[RouteProfile]:
    """Answer prompts, given as (topic, prompt), seeded, sampled as the model's `generation_config.json` says, and keep
    their routes.

    Raise UsageError for a model without experts.
    """
    format_of(token_model)
    return answers(token_model, asked, max_tokens, seed, routed=True)


def answers(
    token_model: str, asked: Sequence[tuple[str, str]], max_tokens: int, seed: int, routed: bool
) -> list[RouteProfile]:
    """Answer prompts like `profile`, with routes only if `routed`; otherwise the routes are empty [0, 0, 0]."""
    if routed and not on_cpu():
        os.environ[SECOND_RUNNER] = "1"
    prepare_environment(token_model)
    with run_folder() as folder:
        return _answered(folder, token_model, asked, max_tokens, seed, routed)


def _answered(
    folder: Path, token_model: str, asked: Sequence[tuple[str, str]], max_tokens: int, seed: int, routed: bool
) -> list[RouteProfile]:
    from vllm import LLM

    from serving.token_source.rendezvous import meet_in

    meet_in(folder)
    engine = (_routing() if routed else {}) | (_on_cpu() if on_cpu() else {})
    llm = LLM(token_model, max_model_len=CONTEXT, use_tqdm_on_load=False, **engine)
    params = [llm.get_default_sampling_params() for _ in asked]
    for index, each in enumerate(params):
        each.max_tokens, each.seed = max_tokens, seed + index
    outputs = llm.chat([[{"role": "user", "content": prompt}] for _, prompt in asked], params, use_tqdm=False)
    found = []
    for (topic, prompt), answer in zip(asked, outputs, strict=True):
        output = answer.outputs[0]
        routes = np.asarray(output.routed_experts).astype(np.int64) if routed else np.empty((0, 0, 0), dtype=np.int64)
        tokens, finished = list(output.token_ids), output.finish_reason == "stop"
        found.append(RouteProfile(topic, prompt, output.text, routes, list(answer.prompt_token_ids), tokens, finished))
    return found


def _on_cpu() -> dict[str, Any]:
    return {"dtype": "float32", "enforce_eager": True, "enable_chunked_prefill": False}


def _routing() -> dict[str, Any]:
    """Return the options with which vLLM tells routes: on a CPU, by our worker. Cached prefixes would have none."""
    if not on_cpu():
        return {"enable_return_routed_experts": True, "enable_prefix_caching": False}
    from serving.token_source.scheduler import RunAheadScheduler
    from serving.token_source.worker.routed_worker import RoutedWorker

    return {
        "enable_prefix_caching": False,
        "worker_cls": RoutedWorker.__module__ + "." + RoutedWorker.__qualname__,
        "scheduler_cls": RunAheadScheduler.__module__ + "." + RunAheadScheduler.__qualname__,
    }
