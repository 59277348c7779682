"""Names of API keys: what limits, fair queues and logs know a key by."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from serving.call import Call
from serving.scenario.listen_options import KEYS, ListenOptions
from serving.scenario.scenario_error import ScenarioError
from serving.security.api_keys import api_keys, digest


class KeyNames:
    """The API keys, each named by its place in the list, which reveals nothing of the key."""

    def __init__(self, digests: Sequence[bytes]) -> None:
        self._names = {each: str(place) for place, each in enumerate(digests)}

    def name_of(self, call: Call) -> str:
        """Return the name of a call's key, which has been checked before; "" where no keys are required."""
        if not self._names:
            return ""
        return self._names.get(digest(call.header("authorization").partition(" ")[2]), "")


def key_places(settings: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the API keys that scenarios of these settings have, each with its place in its list; none of settings
    whose keys can't be read, as nothing is run with them."""
    found: dict[str, str] = {}
    for each in settings:
        said = {name: each[name] for name in KEYS if name in each}
        try:
            found |= {key: str(place) for place, key in enumerate(api_keys(ListenOptions(**said)))}
        except ScenarioError:
            continue
    return found


def hidden(told: Any, places: Mapping[str, str]) -> Any:
    """Return values as files have them, with each API key, or what ends in one as a setting's name does, by its
    place."""
    if isinstance(told, Mapping):
        return {hidden(name, places): hidden(value, places) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [hidden(each, places) for each in told]
    if not isinstance(told, str):
        return told
    start, dot, last = told.rpartition(".")
    return places.get(told, f"{start}{dot}{places.get(last, last)}")
