"""Codec of log probabilities, from the token source to the edge: msgpack, as between vLLM's own processes.

They are never pickled, whatever vLLM's options say.
"""

from typing import Any

from vllm.v1.engine import EngineCoreOutput
from vllm.v1.serial_utils import CUSTOM_TYPE_RAW_VIEW, MsgpackDecoder, MsgpackEncoder

from serving.types import Chunk

# Keeps arrays of any size inside the one frame.
INLINE = 2**62


class _Encoder(MsgpackEncoder):  # type: ignore[misc]
    def enc_hook(self, obj: Any) -> Any:
        made = super().enc_hook(obj)
        if type(made) is not tuple:
            raise TypeError(f"{type(obj)} is neither an array nor a tensor")
        return made


class _Decoder(MsgpackDecoder):  # type: ignore[misc]
    def ext_hook(self, code: int, data: memoryview) -> Any:
        if code != CUSTOM_TYPE_RAW_VIEW:
            raise NotImplementedError(f"extension {code} is not an array")
        return data


_ENCODER, _DECODER = _Encoder(size_threshold=INLINE), _Decoder(EngineCoreOutput)


def pack(output: EngineCoreOutput) -> bytes:
    """Return an output as one frame. For one thread at a time."""
    (frame,) = _ENCODER.encode(output)
    return bytes(frame)


def unpack(chunk: Chunk) -> EngineCoreOutput:
    """Return the output packed in a chunk. Raise ValueError if it is none, or another request's."""
    try:
        output = _DECODER.decode(bytearray(chunk.extra or b""))
    except Exception as error:
        # What nonsense does in there (TypeError, AssertionError, ...) depends on the nonsense.
        raise ValueError(f"no output of vLLM's: {error}") from error
    if (output.request_id, output.new_token_ids) != (chunk.request_id, chunk.tokens):
        raise ValueError("the output is another's")
    return output
