"""The fingerprint of an answer's system, which tells whether its text was recorded."""

from typing import Any

from serving.api.extension import extend
from serving.call import current_call

RECORDED = "-recorded"


class _Told:
    """One of vLLM's serving objects, whose fingerprint is that of the current call's text."""

    @property
    def system_fingerprint(self) -> str | None:
        own: str | None = self.__dict__["system_fingerprint"]
        call = current_call()
        return f"{own or 'foreserve'}{RECORDED}" if call is not None and call.recorded else own


def tell_source(serving: Any) -> None:
    """Have the answers of a serving object say where their text comes from."""
    extend(serving, _Told)
