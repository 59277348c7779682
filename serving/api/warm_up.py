"""The first request of a process takes ten times as long as the second: better that it is not a client's."""

import asyncio
import contextlib
from functools import partial
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest

# At a low speed even one token takes long; what is warm by then is warm.
LIMIT_S = 1.0
ROUNDS = 2


async def warm_up(state: Any) -> None:
    """Answer a chat and a completion of one token, for nobody, by whatever name the model is served, as far as there is
    time: during a pause none is answered. `state` is what vLLM's `init_app_state` has filled."""
    chat = ChatCompletionRequest(messages=[{"role": "user", "content": "Hello!"}], max_tokens=1)
    completion = CompletionRequest(prompt="Hello!", max_tokens=1)
    asked = [
        partial(state.openai_serving_chat.create_chat_completion, chat),
        partial(state.openai_serving_completion.create_completion, completion),
    ]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_S) as limit:
            for ask in asked * ROUNDS:
                # vLLM answers one that is cancelled with an error: the next one would have no limit.
                if not limit.expired():
                    await ask()
