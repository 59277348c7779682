"""KV events of a server, by vLLM's configuration of its front end."""

import logging
from typing import Any

from serving.edge.kv_events.prefixes import OwnPrefixes, Prefixes, VllmPrefixes
from serving.edge.kv_events.publishers import KvEvents
from serving.scenario.scenario import Scenario

log = logging.getLogger("foreserve")

OPEN = (
    "KV events tell the tokens of all prompts to whoever reaches %s of this machine: no key is asked for there, as in "
    "vLLM. Let a firewall keep others out, or publish the events of one device at ipc://PATH."
)


def kv_events_of(config: Any, scenario: Scenario, devices: int) -> KvEvents | None:
    """Return the publishers that vLLM's `config` asks for, or None. Raise UsageError if their endpoints can't be
    had."""
    asked = config.kv_events_config
    if asked is None or not asked.enable_kv_cache_events:
        return None
    prefixes = VllmPrefixes(config.cache_config.prefix_caching_hash_algo, scenario.block_tokens)
    if asked.endpoint.startswith("tcp://*"):
        log.warning(OPEN, asked.endpoint)
    return KvEvents(asked, prefixes, scenario.block_tokens, devices)


def prefixes_of(scenario: Scenario, kv_events: KvEvents | None) -> Prefixes:
    """Return the prefixes of a scenario's prompts: hashed as vLLM does if there are `kv_events`."""
    if kv_events is not None:
        return kv_events.prefixes
    return OwnPrefixes(scenario.block_tokens if scenario.prefix_caching else 0)
