"""Names of API keys: what limits, fair queues and logs know a key by."""

from collections.abc import Sequence

from serving.call import Call
from serving.security.api_keys import digest


class KeyNames:
    """The API keys, each named by its place in the list, which reveals nothing of the key."""

    def __init__(self, digests: Sequence[bytes]) -> None:
        self._names = {each: str(place) for place, each in enumerate(digests)}

    def name_of(self, call: Call) -> str:
        """Return the name of a call's key, which has been checked before; "" where no keys are required."""
        if not self._names:
            return ""
        return self._names.get(digest(call.header("authorization").partition(" ")[2]), "")
