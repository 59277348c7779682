"""The Ray actor of the token source: a thin shell around vLLM's engine."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import ray

from serving.cluster.endpoints.rpc_endpoint import RpcEndpoint, joined_folder
from serving.cluster.endpoints.source import SourceService
from serving.cluster.streams.senders import Senders
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.process.cores import keep_to_share
from serving.process.main_thread import rest_between_looks
from serving.process.process_priority import settle


class SourceSettings(NamedTuple):
    """The common settings of an emulation's token sources.

    `flags`: vLLM's. `token_model`: the folder or name of its model. `ahead`: tokens that a request may be ahead of its
    device. `niceness`: added to the process's own. `sources`: their number; they take `nodes` nodes in turn.
    """

    flags: list[str]
    token_model: str
    ahead: int
    niceness: int
    sources: int
    nodes: int

    def keep_to_share(self, index: int) -> None:
        """Keep this process, the source of an index, to its share of its node's cores."""
        keep_to_share(index // self.nodes, -(-self.sources // self.nodes))


@ray.remote(num_cpus=0, concurrency_groups={"loop": 1, "feed": 1})
class TokenSource:
    """The actor of vLLM's engine. Another one takes its place if it dies (`serving.cluster.sources.manager`)."""

    def __init__(self, index: int, settings: SourceSettings, edge: Address) -> None:
        from serving.token_source.engine_args import engine_args
        from serving.token_source.vllm_args import prepare_environment

        os.nice(settings.niceness)
        settings.keep_to_share(index)
        prepare_environment(settings.token_model)
        from serving.token_source.rendezvous import meet_in, share_one_group
        from serving.token_source.vllm_source import VllmSource

        meet_in(joined_folder(edge))
        share_one_group()
        # A device that is gone has no address: its requests' tokens go to another one, once that has asked.
        devices = Senders()
        self._source = VllmSource(engine_args(settings.flags), settings.ahead, devices.send)
        service = SourceService(self._source, devices)
        methods: list[Callable[..., Any]] = [
            service.connect,
            service.warm_up,
            service.add,
            service.drop,
            service.keep,
            service.resend,
            service.remind,
            service.taken,
            service.cost,
        ]
        self._endpoint = RpcEndpoint(f"source-{index}", edge, methods, lambda: self._source.overdue_s)
        rest_between_looks()

    @ray.method(concurrency_group="feed")
    def pulse(self) -> Heartbeat:
        """Return the heartbeat of the loop: the real seconds that it has been at one step."""
        return self._endpoint.pulse()

    @ray.method(concurrency_group="feed")
    def address(self) -> Address:
        """Return the address at which the actor is called."""
        return self._endpoint.address

    @ray.method(concurrency_group="loop")
    def run(self) -> None:
        """Run the loop, which ends only by an error, or with its process."""
        settle()
        while True:
            self._source.cycle()

    @ray.method(concurrency_group="feed")
    def beyond_known(self) -> list[str]:
        return self._source.beyond_known()
