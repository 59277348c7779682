"""What the commands' options have in common."""

import argparse

HELP = {
    "system": "kind of system to emulate, a file in device_model/systems",
    "hardware": "its hardware, a file in device_model/specs/hardware",
    "model": "the model it serves, a file in device_model/specs/models",
    "draft": "draft scheme with which every step speculates, a file in device_model/drafts (none: plain decoding)",
    "acceptance": "rates of accepted drafts: published (the paper's), or measured (on the bundled token model)",
    "residency": "what HB holds of the experts: analytic (as a law expects), or trace (a real cache, real routes)",
    "devices": "emulated devices",
    "fleet": "devices that differ, each entry as [COUNT x ][SYSTEM/]HARDWARE[+DRAFT], for example '2 x elmoe3d-4gb'; "
    "may be given more than once",
    "router": "how requests find a device: round-robin, least-loaded, topic-affine, prefix-affine, or score, which may "
    "have weights ('score: load=1, topic=0.5, prefix=1')",
    "shared_ext": "devices that share one LPDDR tier, its bandwidth and its capacity (1: each has its own)",
    "faults": "what breaks, and when, for example 'lpddr: left=0.4, device=0, at=10, for=30' (kinds: lpddr, hb, clock, "
    "stall, lost); may be given more than once",
    "seed": "what is left to chance in faults follows from it",
    "speed": "emulated seconds per real second: 1 is real time, 0.1 ten times slower",
    "token_model": "model that makes the text: foreserve-moe or foreserve-tiny, which are bundled, or one in Hugging "
    "Face format, a folder or a repository's name",
    "token_ahead": "tokens that vLLM may be ahead of a device, per request",
    "max_model_len": "longest context in tokens, if the models and the device can hold it",
    "max_num_seqs": "most sequences in a device's batch",
    "max_num_batched_tokens": "most tokens in one step of a device",
    "max_queue": "most unfinished requests before clients are told to come back later",
    "host": "address to listen on",
    "http_port": "port of the OpenAI HTTP API and /metrics (0: any free one)",
    "grpc_port": "port of the gRPC API (0: any free one)",
    "api_keys": "key that clients must show; may be given more than once",
}

"""What each key of a scenario says, on the command line too."""

REPEATABLE = {"api_keys": "api_key", "fleet": "device", "faults": "fault"}
"""Options that may be given more than once: each of them is an entry of the scenario's list."""

MOST = 1_000_000  # of whatever the command line counts


def option_of(key: str) -> str:
    """The option that stands for a key of a scenario."""
    return "--" + REPEATABLE.get(key, key).replace("_", "-")


def positive(text: str) -> int:
    """A whole number from 1 on, from the command line."""
    if not text.isdigit() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a whole number from 1 to {MOST}")
    return int(text)
