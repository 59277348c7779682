"""vLLM's gRPC service warms the engine up by requests of its own, in the positional form of `generate`."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from smg_grpc_servicer.vllm.warmup import EngineWire, WarmupRequest

from serving.api.grpc.vllm_service import HonouringEngine


class Engine:
    """Answers with one token a request, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str]] = []

    async def generate(self, prompt: Any, sampling_params: Any, request_id: str, **rest: Any) -> AsyncIterator[Any]:
        self.asked.append((prompt["prompt_token_ids"], request_id))
        tokens = [7] * sampling_params.max_tokens
        yield SimpleNamespace(outputs=[SimpleNamespace(finish_reason="length", token_ids=tokens)])


def test_its_requests_reach_the_engine() -> None:
    engine = Engine()
    request = WarmupRequest("warm", prompt_tokens=2, max_tokens=2, seed=0, vocab_size=100)
    asyncio.run(EngineWire(HonouringEngine(engine)).generate(request, 5.0))
    assert engine.asked == [(list(request.token_ids), "warm")]
