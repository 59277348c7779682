"""Value types of the emulator, in the order in which a request meets them.

    Request    stamped once at the edge, handed to one device's scheduler
    KvEvent    what the device's prefix cache has stored or evicted, for whoever follows it
    Batch      what the scheduler composed: whole steps, ahead until something changes
    Chunk      a token on its way: from the token source into a device's buffer, and on to the edge
    StepRecord what one step did: the one observability hook
    Release    the tokens of a step, at the instant at which the emulated device has them

`StepPlan` and `StepCost`, between Batch and StepRecord, belong to the device model (`device_model/step.py`).
Every instant (`_s`, unless `real` is in its name) is in emulated seconds since the emulator's origin.
"""

from typing import Annotated

import msgspec
import numpy as np

from device_model.step import StepPlan

NEVER = float("inf")
FAILED = 3
"""vLLM's `FinishReason.ERROR`, as chunks have it."""
FAILED_ON = "The token source failed on this request"
"""Begins the sentence of a chunk that failed by its own request: what that asks for cannot be done."""
# What is beyond these can't be read from a message.
Count = Annotated[int, msgspec.Meta(ge=0)]
Some = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
Instant = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
Finish = Annotated[int, msgspec.Meta(ge=0, le=4)]  # vLLM's FinishReason


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A request as the scheduler sees it: numbers only.

    `released` is 0, but for a request that another instance of the device had begun: tokens that its client has. What
    is left to chance in emulating it follows from `seed`. `topic` is one of `serving.topics`, or "" where nobody asked;
    `key` names whose request it is, among those that share a device fairly ("": nobody's). Of `priority` a lower one is
    served sooner, as in vLLM. `ttft_s` and `tpot_s` are what its SLO class promises. `blocks` are hashes of the whole
    blocks of its prompt, each of all tokens up to that block's end: equal ones have equal keys and values. Of one that
    was begun on a device that is gone, keys and values are lost with it (`kv_lost`). Where somebody follows the prefix
    cache, `prompt` are its token ids (each a uint32), and `salt` keeps its blocks apart from those of others. One that
    `takes_all` has no end before `max_tokens`.
    """

    id: str
    arrival_s: Instant
    prompt_tokens: Some
    max_tokens: Some
    released: Count = 0
    seed: int = 0
    topic: str = ""
    key: str = ""
    priority: int = 0
    ttft_s: float = NEVER
    tpot_s: float = NEVER
    blocks: list[int] = []
    kv_lost: bool = False
    prompt: bytes = b""
    salt: str = ""
    takes_all: bool = False

    @property
    def deadline_s(self) -> float:
        """The instant by which its first token is due."""
        return self.arrival_s + self.ttft_s


class KvEvent(msgspec.Struct, frozen=True, array_like=True):
    """A change of a device's prefix cache: blocks that it has `stored`, or evicted (`removed`), by their hashes; with
    neither, it was emptied.

    The stored ones follow each other in a prompt: `parent` is the hash of the block before them (None: none is),
    `tokens` are theirs, each a uint32, and `salt` is the prompt's.
    """

    stored: list[int] = []
    removed: list[int] = []
    parent: int | None = None
    tokens: bytes = b""
    salt: str = ""


class Outlook(msgspec.Struct, frozen=True, array_like=True):
    """What a scheduler sees beyond a batch.

    Of those who wait, `admissible` could run beside it once their prompts' turn comes, of which a step computes
    `prompt_tokens` at most. Requests that ended lately had the share `answered` of the tokens that they might have had.
    """

    admissible: int = 0
    prompt_tokens: int = 0
    answered: float = 1.0


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """The next steps of a device: the same sequences for `horizon` steps, if nothing happens.

    `new_tokens`, `context` and `emits` [n] stand beside `ids`: a sequence emits a token in each step, but for a
    prefill that has chunks to come. `seeds`, `released` and `remaining` [n] are of the requests, and of the tokens that
    they have had and may yet have. No `ids`: nothing to do before `until_s`, the next arrival that is known. `found`
    stands beside `started`: the tokens of each that the prefix cache had. `kv_events` are what became of that cache
    since the batch before, where somebody follows it. The `outlook` is beyond these steps. Live, `news_s` are real
    seconds from an arrival to the scheduler, of the requests of which it has heard since then.
    """

    ids: list[str]
    new_tokens: list[int]
    context: list[int]
    emits: list[bool]
    start_s: float
    seeds: list[int] = []
    released: list[int] = []
    remaining: list[int] = []
    topics: list[str] = []
    until_s: float = NEVER
    horizon: int = 1
    started: list[str] = []
    waiting: int = 0
    kv_tokens: int = 0
    preempted: list[str] = []
    spilled_tokens: int = 0
    fetched_tokens: int = 0
    queried_tokens: int = 0
    cached_tokens: int = 0
    slips: int = 0
    found: list[int] = []
    kv_events: list[KvEvent] = []
    outlook: Outlook = Outlook()
    news_s: list[float] = []

    @property
    def preemptions(self) -> int:
        """Sequences that were preempted for these steps."""
        return len(self.preempted)

    @property
    def plan(self) -> StepPlan:
        """The batch as the device model takes it."""
        new, context = np.array(self.new_tokens, dtype=np.int64), np.array(self.context, dtype=np.int64)
        if self.decoding == self.new_tokens.count(1):
            return StepPlan(new, context)
        return StepPlan(new, context, decoding=np.flatnonzero(self.decodes))

    @property
    def decoding(self) -> int:
        """Sequences that decode."""
        if all(self.emits) and 0 not in self.released:
            return self.new_tokens.count(1)
        return sum(self.decodes)

    @property
    def decodes(self) -> list[bool]:
        """Tell of each sequence whether it decodes: it computes one token behind those that it has had, and emits one.
        A prompt's only, or last, token is none of those."""
        had = self.released or self.new_tokens
        each = zip(self.new_tokens, self.emits, had, strict=True)
        return [new == 1 and emits and released > 0 for new, emits, released in each]

    @property
    def phase(self) -> str:
        """`decode`, `prefill`, or `mixed` where one step does both."""
        decoding = self.decoding
        return "decode" if decoding == len(self.ids) else "mixed" if decoding else "prefill"


class Done(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a batch: the number of its steps made, how many drafts of each sequence were `accepted` in them
    (empty if none were drafted), and the requests that `finished` with the last. The step before the device's last one
    began at emulated instant `before_s`."""

    steps: int = 0
    accepted: list[int] = []
    finished: list[str] = []
    before_s: float = -1.0


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """One token of a request, at position `first` of its output; `finish` is vLLM's reason if it is the last.

    `extra` holds whatever else vLLM said with it (log probabilities, see `edge.outputs`); only the edge opens it.
    `routes` are the experts that the token model's routers chose in computing it (`token_model.route_format`), and with
    the first token of a request `prompt` are the ids of its prompt, each a uint32; only the device opens them. With it
    `cached` are the tokens of the prompt that the prefix cache had, and `created` those that it has since.
    """

    request_id: str
    first: Count
    tokens: list[Count]
    finish: Finish | None = None
    stop_reason: int | str | None = None
    extra: bytes | None = None
    routes: bytes | None = None
    prompt: bytes | None = None
    cached: int = 0
    created: int = 0

    @property
    def direct(self) -> bool:
        """Tell whether it has nothing but tokens, and not its request's first. An edge in a process of its own gets
        such from the device itself, and the engine core hears of them later."""
        return self.first > 0 and self.finish is None and self.extra is None

    @property
    def failed(self) -> bool:
        """Tell whether it ends its request with an error: at whatever token, as nobody knows which comes next."""
        return self.finish == FAILED


class StepRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of one step of one device. Metrics, logs and traces are made from it, and nothing else counts anything.

    `mode` is "ar" or "sd": `drafts` sequences drafted, `drafted` tokens in all (of the longest path of each tree), of
    which `accepted` were; the trees are `width` wide, and `verified` tokens of all of them were verified; `reason` says
    why it is in this mode. `late_real_s` is how long after its modelled instant the device released the step, in real
    seconds. `unrouted` are tokens whose experts a traced cache had to guess. The tokens spilled, fetched, queried and
    cached are those of the batch (see there), in its first step; `swaps` is 1 if HB was given other experts before it,
    which took `swap_s` of `moved_s`, and `swap_j` of the energy. `draft_s`, `target_s` (a prompt, plain decoding, or
    verifying), `update_s` (of the draft's experts, where it is not hidden) and `moved_s` (experts and KV between the
    tiers, before the step) add up to the latency. `accepted_by` [depth + 1] counts the sequences that drafted by how
    many of their drafts were accepted. `hits_beyond_hb` are what the paper's law has beyond what HB holds, and
    `unpublished` is 1 if the step is beyond what the device's paper published (`device_model.step.StepCost`). `news_s`
    are those of the batch, in its first step. In virtual time equal steps may be told of as one: then `steps` is how
    many, figures that can be added are their sums, and `kv_tokens` are those of the first. `late_real_s` comes last,
    as it is known last.
    """

    device: int
    mode: str
    phase: str
    start_s: float
    latency_s: float
    batch: int
    new_tokens: int
    energy_j: tuple[float, ...]
    traffic_bytes: tuple[float, ...]
    expert_lookups: float
    expert_hits: float
    underruns: int
    waiting: int
    kv_tokens: int
    preemptions: int
    slips: int
    unrouted: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    reason: str = ""
    spilled_tokens: int = 0
    fetched_tokens: int = 0
    queried_tokens: int = 0
    cached_tokens: int = 0
    swaps: int = 0
    draft_s: float = 0.0
    target_s: float = 0.0
    update_s: float = 0.0
    moved_s: float = 0.0
    swap_s: float = 0.0
    swap_j: float = 0.0
    accepted_by: list[int] = []
    steps: int = 1
    hits_beyond_hb: float = 0.0
    unpublished: int = 0
    width: int = 0
    verified: int = 0
    news_s: list[float] = []
    decoding: int = 0
    late_real_s: float = 0.0


class DroppedMessages(msgspec.Struct, frozen=True, array_like=True):
    """Messages that could not be read: how many, and what was wrong with the last."""

    count: int
    why: str


class Release(msgspec.Struct, frozen=True, array_like=True):
    """Tokens that the device has at emulated instant `at_s`: those of one step, or (no `record`) overdue ones.

    `started` names the requests whose first step this was, begun at `start_s`, `found` beside it how many of their
    tokens the prefix cache had, and `preempted` those that made room for it. Where steps are told of as one, `ends_s`
    are the instants at which each of them gave each sequence a token; the last of them is `at_s`. One with `kv_events`,
    or with `unknown`, has nothing else: these are requests that the edge has asked for, and of which all that the
    device had was released before this. The record comes last, so that a message ends with how late it is.
    """

    device: int
    at_s: float
    chunks: list[Chunk]
    started: list[str] = []
    start_s: float = 0.0
    ends_s: list[float] = []
    found: list[int] = []
    preempted: list[str] = []
    kv_events: list[KvEvent] = []
    unknown: list[str] = []
    record: StepRecord | None = None
