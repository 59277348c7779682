"""The Ray actor of the token source: a thin shell around vLLM's engine."""

import os
from typing import Any

import ray

from serving.cluster.streams.senders import Senders
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.process.process_priority import settle


@ray.remote(num_cpus=0, concurrency_groups={"loop": 1, "feed": 1})
class TokenSource:
    """vLLM in a process of its own. Another one takes its place if it dies (`serving.cluster.source_manager`)."""

    def __init__(self, flags: list[str], token_model: str, ahead: int, niceness: int) -> None:
        from serving.token_source.engine_args import engine_args
        from serving.token_source.vllm_args import prepare_environment

        os.nice(niceness)
        prepare_environment(token_model)
        from serving.token_source.rendezvous import meet_in_run_folder
        from serving.token_source.vllm_source import VllmSource

        meet_in_run_folder()
        # A device that is gone has no address: what was for it goes to another one, once that has asked.
        self._devices = Senders()
        self._source = VllmSource(engine_args(flags), ahead, self._devices.send)

    @ray.method(concurrency_group="feed")
    def pulse(self) -> Heartbeat:
        """For how many real seconds the loop has been at one step."""
        return Heartbeat.of_this(self._source.overdue_s)

    @ray.method(concurrency_group="feed")
    def wire(self, devices: dict[int, Address]) -> None:
        """Learn where tokens go: each device's address."""
        self._source.do(lambda: self._devices.connect(devices))
        settle()

    @ray.method(concurrency_group="loop")
    def run(self) -> None:
        """The loop: ends only by an error, or with its process."""
        while True:
            self._source.cycle()

    @ray.method(concurrency_group="feed")
    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        self._source.warm_up(request_id, device, tokens)

    @ray.method(concurrency_group="feed")
    def add(self, request: Any, device: int, known: list[int]) -> None:
        self._source.add(request, device, known)

    @ray.method(concurrency_group="feed")
    def drop(self, request_ids: list[str]) -> None:
        self._source.drop(request_ids)

    @ray.method(concurrency_group="feed")
    def taken(self, positions: dict[str, int]) -> None:
        self._source.taken(positions)

    @ray.method(concurrency_group="feed")
    def beyond_known(self) -> list[str]:
        return self._source.beyond_known()

    @ray.method(concurrency_group="feed")
    def cost(self) -> tuple[float, float]:
        return self._source.cost.line

    @ray.method(concurrency_group="feed")
    def resend(self, request_id: str, position: int, device: int) -> None:
        self._source.resend(request_id, position, device)
