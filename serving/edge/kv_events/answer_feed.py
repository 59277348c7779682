"""Answer feed: tells a device's scheduler what an answer said, so that a prompt which goes on from there finds it, as a
chat's next turn does."""

from collections.abc import Callable

import msgspec

from serving.cluster.node import Node
from serving.cluster.observer import EdgeObserver
from serving.flight import Flight


class AnswerFeed(EdgeObserver):
    """Hears of requests that end; `node_of` finds the device that a flight names, if it is there."""

    def __init__(self, block_tokens: int, node_of: Callable[[int], Node | None]) -> None:
        """`block_tokens`: the size of the blocks that prompts may share; 0 if they share none."""
        self._block_tokens, self._node_of = block_tokens, node_of

    def on_finish(self, flight: Flight) -> None:
        node, request = self._node_of(flight.device), flight.request
        size = self._block_tokens
        # An answer's last token is not in the KV cache: it was never computed with.
        whole = (request.prompt_tokens + flight.made - 1) // size if size else 0
        if node is None or flight.choices.prefix is None or whole <= len(request.blocks):
            return
        # The prompt, which may be long, was hashed when it came.
        answered = flight.choices.prefix.extended(flight.tokens[:-1])
        node.calls.remember(msgspec.structs.replace(request, **answered.fields))
