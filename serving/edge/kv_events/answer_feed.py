"""Answer feed: tells a device's scheduler what an answer said, so that a prompt which goes on from there finds it, as a
chat's next turn does."""

from collections.abc import Callable
from typing import Any

import msgspec

from serving.cluster.node import Node
from serving.cluster.observer import EdgeObserver
from serving.edge.kv_events.prefixes import Prefixes
from serving.flight import Flight


class AnswerFeed(EdgeObserver):
    """Hears of requests that end; `node_of` finds the device that a flight names, if it is there."""

    def __init__(self, prefixes: Prefixes, node_of: Callable[[int], Node | None]) -> None:
        self._prefixes, self._node_of = prefixes, node_of

    def on_finish(self, flight: Flight) -> None:
        node, request = self._node_of(flight.device), flight.request
        size = self._prefixes.block_tokens
        # An answer's last token is not in the KV cache: it was never computed with.
        whole = (request.prompt_tokens + flight.made - 1) // size if size else 0
        if node is None or whole <= len(request.blocks):
            return
        of_vllm: Any = flight.core_request
        tokens = [*of_vllm.prompt_token_ids, *flight.tokens[:-1]]
        described = self._prefixes.described(tokens, of_vllm.cache_salt or "")
        node.calls.remember(msgspec.structs.replace(request, **described))
