"""Large answers, of many log probabilities or many choices: made on a thread of their own, so that no stream waits.

vLLM makes an answer as one piece of work of its event loop, and JSON of it as another: some 10 us for each log
probability. Here the loop only collects what the answer is made of.
"""

import asyncio
import contextvars
import gc
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import pydantic
from fastapi.responses import JSONResponse
from vllm.entrypoints.openai.chat_completion import api_router as chat_router
from vllm.entrypoints.openai.completion import api_router as completion_router
from vllm.entrypoints.openai.responses import api_router as responses_router
from vllm.entrypoints.openai.responses.protocol import ResponsesResponse
from vllm.entrypoints.scale_out.token_in_token_out import api_router as tokens_router
from vllm.outputs import RequestOutput
from vllm.utils.async_utils import merge_async_iterators

from serving.api.extension import extend

# Log probabilities, or choices, from which an answer is large: fewer are made within a millisecond or two.
LARGE = 256
PIECE_BYTES = 1 << 20
# How long the thread may keep others from Python at a time: the loop has to wait for it at each call of the system.
SWITCH_S = 2e-4


# One after the other, as each keeps the garbage collector off.
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="large-answers")


class Pieces(list[bytes]):
    """The body of an answer, in parts that are written one after the other."""


class Response(JSONResponse):
    """vLLM's own, but that a body may have been made before."""

    def __init__(self, content: Any, *arguments: Any, **named: Any) -> None:
        """Take the arguments of `JSONResponse`, or `Pieces` for `content`."""
        self._pieces = content if isinstance(content, Pieces) else None
        super().__init__(None if self._pieces else content, *arguments, **named)
        if self._pieces:
            self.headers["content-length"] = str(sum(map(len, self._pieces)))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the answer, in its pieces if it has any."""
        if not self._pieces:
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})


class PreparedBody:
    """An answer for vLLM's route, which takes it for one of its own: `model_dump` returns the body."""

    def model_dump(self, *_: Any, **__: Any) -> Any:
        """Return the pieces of the body, which `Response` takes as they are."""
        return self.__dict__["pieces"]


class LargeChat:
    """vLLM's serving object for chat, whose large answers are made apart."""

    async def chat_completion_full_generator(
        self, request: Any, result_generator: AsyncIterator[RequestOutput], *rest: Any, **named: Any
    ) -> Any:
        """Make an answer as vLLM does."""
        make = super().chat_completion_full_generator  # type: ignore[misc]
        return await _made_of_last(make, request, result_generator, *rest, **named)


class LargeTokens:
    """vLLM's serving object for tokens in and out, whose large answers are made apart."""

    async def serve_tokens_full_generator(
        self, request: Any, result_generator: AsyncIterator[RequestOutput], *rest: Any, **named: Any
    ) -> Any:
        """Make an answer as vLLM does."""
        make = super().serve_tokens_full_generator  # type: ignore[misc]
        return await _made_of_last(make, request, result_generator, *rest, **named)


class LargeResponses:
    """vLLM's serving object for responses, whose large answers are made apart: not those that are kept, or of tools
    that vLLM calls itself."""

    async def responses_full_generator(
        self, request: Any, params: Any, result_generator: AsyncIterator[Any], context: Any, *rest: Any, **named: Any
    ) -> Any:
        """Make an answer as vLLM does."""
        make = super().responses_full_generator  # type: ignore[misc]
        if request.store or self.__dict__["tool_server"] is not None:
            return await make(request, params, result_generator, context, *rest, **named)
        try:
            async for _ in result_generator:
                pass
        except asyncio.CancelledError as error:
            return await make(request, params, _raising(error), context, *rest, **named)
        final = getattr(context, "final_output", None)
        if final is None or not is_large([final]):
            return await make(request, params, _alone(None), context, *rest, **named)
        return await apart(lambda: asyncio.run(make(request, params, _alone(None), context, *rest, **named)), [final])


class LargeBatch:
    """vLLM's serving object for batches of conversations, whose large answers are made apart."""

    async def chat_completion_full_generator_batch(
        self, request: Any, generators: Sequence[AsyncGenerator[RequestOutput, None]], *rest: Any, **named: Any
    ) -> Any:
        """Make an answer as vLLM does."""
        make = super().chat_completion_full_generator_batch  # type: ignore[misc]
        finals: dict[int, RequestOutput] = {}
        try:
            async for index, result in merge_async_iterators(*generators):
                finals[index] = result
        except asyncio.CancelledError as error:
            return await make(request, [_raising(error)], *rest, **named)
        outputs = list(finals.values())
        again = partial(_all_alone, finals, len(generators))
        if not is_large(outputs):
            return await make(request, again(), *rest, **named)
        return await apart(lambda: asyncio.run(make(request, again(), *rest, **named)), outputs)


class LargeScores:
    """vLLM's serving object for scores, whose prompts are tokenized apart."""

    async def _build_prompts(self, *arguments: Any) -> Any:
        """Build prompts as vLLM does."""
        build = super()._build_prompts  # type: ignore[misc]
        return await asyncio.get_running_loop().run_in_executor(_THREAD, lambda: asyncio.run(build(*arguments)))


class LargeCompletions:
    """vLLM's serving object for completions, whose large answers are made apart."""

    async def create_completion(self, *arguments: Any, **named: Any) -> Any:
        """Answer a request as vLLM does."""
        answer = await super().create_completion(*arguments, **named)  # type: ignore[misc]
        return await apart(answer, answer.args[0]) if isinstance(answer, partial) else answer

    def request_output_to_completion_response(self, outputs: Sequence[RequestOutput], *rest: Any, **named: Any) -> Any:
        """Make an answer as vLLM does, or return how a large one is made."""
        make = super().request_output_to_completion_response  # type: ignore[misc]
        return partial(make, outputs, *rest, **named) if is_large(outputs) else make(outputs, *rest, **named)


def is_large(outputs: Sequence[RequestOutput]) -> bool:
    """Tell whether an answer of these takes long to make."""
    choices = [choice for output in outputs for choice in output.outputs]
    said = [choice.logprobs for choice in choices] + [output.prompt_logprobs for output in outputs]
    return len(choices) + sum(map(_count, said)) > LARGE


def _count(logprobs: Sequence[Any] | None) -> int:
    """Return the number of log probabilities of an answer or a prompt, whose last position is like the others."""
    return len(logprobs) * len(logprobs[-1] or ()) if logprobs else 0


async def apart(make: Callable[[], Any], outputs: Sequence[RequestOutput]) -> Any:
    """Make an answer of outputs on a thread, and return what `finish` makes of it; an error is returned as it is."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, context.run, _make, make, outputs)


def _make(make: Callable[[], Any], outputs: Sequence[RequestOutput]) -> Any:
    # A collector that went through all this would keep everybody waiting; none of it is a cycle.
    gc.disable()
    try:
        answer = make()
        if hasattr(answer, "choices") or isinstance(answer, ResponsesResponse):
            answer = finish.get()(answer)
        for choice in (choice for output in outputs for choice in output.outputs):
            choice.logprobs = None
        return answer
    finally:
        gc.enable()


def make_apart(state: Any) -> None:
    """Have large work of the serving objects in `state`, which vLLM's `init_app_state` has filled, done apart."""
    sys.setswitchinterval(SWITCH_S)
    for name, kind in KINDS.items():
        if (serving := getattr(state, name, None)) is not None:
            extend(serving, kind)
    for router in (chat_router, completion_router, responses_router, tokens_router):
        router.JSONResponse = Response


KINDS = {
    "openai_serving_chat": LargeChat,
    "openai_serving_chat_batch": LargeBatch,
    "openai_serving_completion": LargeCompletions,
    "openai_serving_responses": LargeResponses,
    "serving_generative_scoring": LargeScores,
    "serving_tokens": LargeTokens,
}
"""What does the work of each of vLLM's serving objects, by its name in the state of the application."""


def pieces_of(answer: pydantic.BaseModel) -> Pieces:
    """Return an answer's JSON, made choice by choice: none takes so long that others would notice."""
    if isinstance(answer, ResponsesResponse):
        whole = answer.model_dump_json(by_alias=True).encode()
        return Pieces(whole[start : start + PIECE_BYTES] for start in range(0, len(whole), PIECE_BYTES))
    choices = [choice.model_dump_json().encode() for choice in answer.choices]  # type: ignore[attr-defined]
    head = answer.model_copy(update={"choices": []}).model_dump_json()
    before, _, after = head.partition('"choices":[]')
    between = [b","] * len(choices)
    parts = [part for pair in zip(between, choices, strict=True) for part in pair][1:]
    return Pieces([f'{before}"choices":['.encode(), *parts, f"]{after}".encode()])


def written(answer: Any) -> Any:
    """Return an answer with its body, as vLLM's routes of HTTP take it."""
    pieces = pieces_of(answer)
    # Freed one by one: all of them at once would take as long as to make them.
    items = getattr(answer, "output", ())
    said = [part for item in items for part in getattr(item, "content", None) or ()]
    for part in getattr(answer, "choices", said):
        part.logprobs = None
    answer.__class__ = _made(answer.__class__)
    answer.__dict__["pieces"] = pieces
    return answer


finish: ContextVar[Callable[[Any], Any]] = ContextVar("finish", default=written)
"""What is made of the current call's answer, if it is large, on the same thread."""


@cache
def _made(kind: type) -> type:
    return type(kind.__name__, (PreparedBody, kind), {})


def _all_alone(finals: Mapping[int, RequestOutput], count: int) -> list[AsyncGenerator[RequestOutput, None]]:
    return [_alone(finals.get(index)) for index in range(count)]


async def _made_of_last(
    make: Callable[..., Any], request: Any, results: AsyncIterator[RequestOutput], *rest: Any, **named: Any
) -> Any:
    """Make an answer of the last output, as vLLM's `make` does of them all."""
    final: RequestOutput | None = None
    try:
        async for result in results:
            final = result
    except asyncio.CancelledError as error:
        return await make(request, _raising(error), *rest, **named)
    if final is None or not is_large([final]):
        return await make(request, _alone(final), *rest, **named)
    return await apart(lambda: asyncio.run(make(request, _alone(final), *rest, **named)), [final])


async def _alone(final: RequestOutput | None) -> AsyncGenerator[RequestOutput, None]:
    if final is not None:
        yield final


async def _raising(error: BaseException) -> AsyncGenerator[RequestOutput, None]:
    raise error
    yield
