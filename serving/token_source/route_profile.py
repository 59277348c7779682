"""Profiles of routes: prompts run through the token model in vLLM, with its routers' choices for each token."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from device_model.step import IntArray
from serving.process.run_folder import run_folder
from serving.token_model.config_file import context_of
from serving.token_model.route_format import format_of
from serving.token_source.vllm_args import SECOND_RUNNER, on_cpu, prepare_environment
from serving.usage_error import UsageError

CONTEXT = 2048
"""Tokens of a prompt and its answer that vLLM makes room for, unless more are asked for."""


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
    """Answer prompts like `profile`, with routes only if `routed`; otherwise the routes are empty [0, 0, 0].

    Raise UsageError for a model without a chat template, and for a prompt that has no room in its context.
    """
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
    chats = [[{"role": "user", "content": prompt}] for _, prompt in asked]
    context = _context(token_model, chats, max_tokens)
    llm = LLM(token_model, max_model_len=context, use_tqdm_on_load=False, **engine)
    params = [llm.get_default_sampling_params() for _ in asked]
    for index, each in enumerate(params):
        each.max_tokens, each.seed = max_tokens, seed + index
    outputs = llm.chat(chats, params, use_tqdm=False)
    found = []
    for (topic, prompt), answer in zip(asked, outputs, strict=True):
        output = answer.outputs[0]
        routes = np.asarray(output.routed_experts).astype(np.int64) if routed else np.empty((0, 0, 0), dtype=np.int64)
        tokens, finished = list(output.token_ids), output.finish_reason == "stop"
        found.append(RouteProfile(topic, prompt, output.text, routes, list(answer.prompt_token_ids), tokens, finished))
    return found


def _context(token_model: str, chats: list[list[dict[str, str]]], max_tokens: int) -> int:
    """Return the tokens that vLLM is to make room for: as many as the longest prompt and its answer may take, if the
    model takes them."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(token_model)
        read = tokenizer.apply_chat_template(chats, add_generation_prompt=True, return_dict=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{token_model} can't be asked, as it has no chat template to ask by ({error}).") from error
    lengths, most = list(map(len, read)), context_of(token_model)
    if max(lengths) >= most:
        at = next(i for i, length in enumerate(lengths) if length >= most)
        raise UsageError(f"Prompt {at + 1} has {lengths[at]} tokens; {token_model} takes {most}, with the answer.")
    return min(most, max(CONTEXT, max(lengths) + max_tokens))


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
