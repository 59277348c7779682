"""Request codec: vLLM's own messages for its requests, as they travel from the edge to a token source."""

from collections.abc import Sequence

from vllm.v1.engine import EngineCoreRequest
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder


def encode_request(request: EngineCoreRequest) -> list[bytes]:
    """Return a request as the frames of a message of vLLM's. Raise TypeError for a value that cannot be sent."""
    return [bytes(frame) for frame in MsgpackEncoder().encode(request)]


def decode_request(frames: Sequence[bytes]) -> EngineCoreRequest:
    """Return the request in a message's frames. Raise ValueError (msgspec's own among them) for others."""
    request: EngineCoreRequest = MsgpackDecoder(EngineCoreRequest).decode(list(frames))
    return request
