"""What the commands' options have in common."""

import argparse

HELP = {
    "system": "kind of system to emulate, a file in device_model/systems",
    "hardware": "its hardware, a file in device_model/specs/hardware",
    "model": "the model it serves, a file in device_model/specs/models",
    "draft": "draft scheme, a file in device_model/drafts; auto: what the system has in its paper; none",
    "mode": "AR or SD: fixed-ar, fixed-sd, tau (SD from a batch of tau on), cost (what the device model finds better)",
    "tau": "smallest batch that speculates (0: from which on it is faster, by the device model)",
    "depth": "tokens that a draft looks ahead: a number, or auto, by cost (not set: as calibrated)",
    "objective": "what is chosen by cost: speed (tokens per second) or energy (tokens per joule)",
    "acceptance": "rates of accepted drafts: published (the paper's), or measured (on the bundled token model)",
    "residency": "what HB holds of the experts: analytic (as a law expects), or trace (a real cache, real routes)",
    "placement": "experts in HB: lru (used last), hot (used most by all topics), topic (by those of the batch)",
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
    "standby_sources": "token sources that stand by to take over when one dies; each needs another vLLM's memory",
    "max_model_len": "longest context in tokens, if the models and the device can hold it",
    "max_num_seqs": "most sequences in a device's batch",
    "max_num_batched_tokens": "most tokens in one step of a device",
    "max_queue": "most unfinished requests before clients are told to come back later",
    "batching": "who begins next: fcfs, priority, slo-aware (earliest deadline), topic-aware (one topic at a time)",
    "patience_s": "emulated seconds for which a request without a deadline may be passed over",
    "topic_hold_s": "emulated seconds for which topic-aware batching may hold back another topic though there is room",
    "prefill": "prompts: mixed with decoding in chunks, prefill-first, or decode-first (when nothing decodes)",
    "prefill_chunk": "most prompt tokens in one step (0: as many as max_num_batched_tokens leaves)",
    "preemption": "KV cache of what is preempted: recompute it, or spill it to LPDDR",
    "kv_tier": "where the KV cache of what runs may lie: all tiers, or hb only",
    "fairness": "between API keys: none, or by tokens (who was served least goes first)",
    "slo_classes": "SLO class that requests may name, as in 'chat: ttft_ms=500, tpot_ms=50, priority=0', of which each "
    "term may be left out; may be given more than once, and replaces the default classes",
    "default_slo": "SLO class of requests that name none (empty: no targets)",
    "early_rejection": "turn a request away (429) if its first token is predicted to come later than its TTFT target",
    "key_requests_per_min": "requests that each API key may make in an emulated minute, all of them at once if it "
    "likes (0: no limit); without API keys, of all clients together",
    "key_tokens_per_min": "the same of tokens: the prompt's and max_tokens, less what is not generated in the end; "
    "requests have to say max_tokens, which is the rest of the context otherwise",
    "prefix_caching": "let requests share the KV cache of what their prompts begin with",
    "block_tokens": "tokens in a block of the KV cache, whole ones of which prompts share",
    "max_request_bytes": "bytes of a request's body, or of a gRPC message",
    "max_connections": "connections of clients; beyond, who says nothing for longest has to go (at most half of the "
    "files that the system lets the server open)",
    "request_timeout_s": "real seconds that a client may take to send the headers of a request, and then its body",
    "stall_timeout_s": "real seconds for which a client may not read what it is sent, before its connection is ended",
    "host": "address to listen on",
    "http_port": "port of the OpenAI HTTP API and /metrics (0: any free one)",
    "grpc_port": "port of the gRPC API (0: any free one)",
    "api_keys": "key that clients must show; may be given more than once. `ps` may show it: rather use a file, or "
    "FORESERVE_API_KEYS (several, with commas or spaces between them)",
    "api_key_file": "file with such keys, one a line; lines that begin with # say nothing",
    "admin_keys": "key for /foreserve/v1/devices, /faults, foreserve.v1.Admin and what of vLLM is no inference. `ps` "
    "may show it: rather use a file, or FORESERVE_ADMIN_KEY; may be given more than once",
    "admin_key_file": "file with such keys, one a line; without any the admin is refused, but on loopback (where an "
    "API key will do)",
    "tls_cert": "file with the certificate to show over HTTP and gRPC, in PEM, and those up to its root; read again "
    "when it changes, as the next two are",
    "tls_key": "file with its private key, in PEM",
    "tls_client_ca": "file with those that clients' certificates must be from, in PEM (not set: clients need none)",
}

"""What each key of a scenario says, on the command line too."""

REPEATABLE = {
    "api_keys": "api_key",
    "admin_keys": "admin_key",
    "fleet": "device",
    "faults": "fault",
    "slo_classes": "slo_class",
}
"""Options that may be given more than once: each of them is an entry of the scenario's list."""

FILES = ("api_key_file", "admin_key_file", "tls_cert", "tls_key", "tls_client_ca")
"""Keys of a scenario that name a file."""

MOST = 1_000_000  # of whatever the command line counts


def option_of(key: str) -> str:
    """The option that stands for a key of a scenario."""
    return "--" + REPEATABLE.get(key, key).replace("_", "-")


def file_name(text: str) -> str:
    """A name of a file, from the command line, where an empty one is a variable that wasn't set."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; it must name a file")
    return text


def positive(text: str) -> int:
    """A whole number from 1 on, from the command line."""
    if not text.isdigit() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a whole number from 1 to {MOST}")
    return int(text)
