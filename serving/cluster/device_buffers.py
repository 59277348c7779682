"""Device buffers: the address at which each device takes its tokens, and the tokens that lie there."""

import asyncio

from ray.exceptions import RayError

from serving.cluster.node import Node, State
from serving.cluster.streams.sockets import Address


class DeviceBuffers:
    """The devices as token sources know them, by index: their `nodes`, and the `addresses` of those that are there."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes
        self.addresses: dict[int, Address] = {}

    async def held(self, within_s: float) -> dict[str, tuple[int, list[int]]]:
        """Return the buffers of all devices that answer within `within_s`, by request: tokens taken, and tokens ready.

        Seconds are real ones.
        """
        asked = [_held(node, within_s) for node in self.nodes.values() if node.up]
        return {id: buffer for held in await asyncio.gather(*asked) for id, buffer in held.items()}

    def follow(self, sources: dict[int, Address]) -> None:
        """Tell all devices the addresses of the token sources; also those that are being mended, though they be lost
        meanwhile: they may have been told others a moment ago."""
        for node in self.nodes.values():
            if node.state is not State.GONE:
                node.device.follow.remote(sources)


async def _held(node: Node, within_s: float) -> dict[str, tuple[int, list[int]]]:
    try:
        async with asyncio.timeout(within_s):
            held: dict[str, tuple[int, list[int]]] = await node.device.held.remote()
    except (RayError, TimeoutError):
        return {}
    return held
