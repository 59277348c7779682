"""One request of a load run, and its body."""

from dataclasses import dataclass
from typing import Any

from serving.load.options import LoadOptions
from serving.load.tool_calls import offered
from serving.workload.ask import Ask


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request to send. `arrival_s` counts from the start of the run, on the clock that the report uses."""

    arrival_s: float
    prompt: str
    max_tokens: int
    messages: tuple[dict[str, Any], ...] = ()  # The prompt as a chat has it; empty: all of it is the user's.
    headers: tuple[tuple[str, str], ...] = ()  # In gRPC, metadata.
    api_key: str = ""  # "": the run's.
    ask: Ask | None = None  # The workload's own description of the request.
    seed: int | None = None  # None: the server chooses.
    tools: int = 0  # Of `serving.workload.tools`, the first so many are offered.

    @property
    def slo(self) -> str:
        """The SLO class that the request names, or ""."""
        return self.ask.slo if self.ask else ""

    @property
    def name(self) -> str:
        """The request's name in the workload, or ""."""
        return self.ask.id if self.ask else ""

    @property
    def calls(self) -> bool:
        """Tell whether the answer is to be the call of a tool."""
        return self.ask is not None and self.ask.calls


def body(request: LoadRequest, options: LoadOptions, model: str) -> dict[str, Any]:
    """Return the request in OpenAI's JSON; gRPC's messages mirror it field for field."""
    fields: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens, "stream": True}
    if options.endpoint == "chat":
        fields["messages"] = list(request.messages) or [{"role": "user", "content": request.prompt}]
    else:
        fields["prompt"] = request.prompt
    fields["stream_options"] = usage = {"include_usage": True}
    if request.tools:
        choice = "required" if request.calls else "none"
        fields |= {"tools": offered(request.tools), "tool_choice": choice, "parallel_tool_calls": False}
    if not options.respect_eos and not request.calls:  # A call ends where its JSON does.
        # vLLM's extensions: every answer has the asked length, so that runs can be compared.
        fields |= {"ignore_eos": True, "min_tokens": request.max_tokens}
    if request.seed is not None:
        fields["seed"] = request.seed
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    asked = options.extra_body.get("stream_options")
    # Tokens are counted by the usage: whoever asks for more of a stream does not give that up.
    kept = {"stream_options": usage | asked} if isinstance(asked, dict) else {}
    return fields | options.extra_body | kept
