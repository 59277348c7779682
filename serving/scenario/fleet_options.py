"""The part of a scenario that says what is emulated: devices, how they are shared out, and what breaks."""

from dataclasses import dataclass, field

from device_model.load import obeys_laws, own_draft, places_experts
from device_model.specs.hardware_file import OWN
from device_model.specs.kinds.hb_xpu import KIND
from device_model.specs.law import Law
from serving.drafting.schemes import EXECUTABLE
from serving.policies.modes import OBJECTIVES, SPEED
from serving.policies.modes import POLICIES as MODES
from serving.policies.placement import LRU, MEASURED, OWN_SWAP, PLACEMENTS, SWAPS, TOPIC, USAGES
from serving.policies.routing import LEAST_LOADED, RouterSpec, parse_router
from serving.policies.step_options import ACCEPTANCES, EXECUTED
from serving.scenario.draft_depth import DepthChoice, DraftDepth, parse_depth
from serving.scenario.faults import Fault, parse_faults
from serving.scenario.fleet import MOST_DEVICES, OWN_DRAFT, FleetError, Member, check_draft, members_of, resolved
from serving.scenario.key import key
from serving.scenario.kind import Kind
from serving.scenario.listen_options import ListenOptions
from serving.scenario.scenario_error import ScenarioError


@dataclass(frozen=True, slots=True)
class FleetOptions(ListenOptions):
    """Devices, and what happens to them. A `Scenario` extends it."""

    system: str = key(
        OWN, "kind of system to emulate, a file in device_model/systems; auto: the one that the hardware's file names"
    )
    hardware: str = key(
        "elmoe3d-8gb", "its hardware, a file in device_model/specs/hardware, or one of your own (./NAME.toml)"
    )
    model: str = key(
        "qwen3-30b-a3b",
        "the model it serves, a file in device_model/specs/models, or one of your own, in models/ in the folder that "
        "FORESERVE_SPECS names",
    )
    draft: str = key(
        "auto",
        "draft scheme, a file in device_model/drafts; auto: what the system has in its paper (none if `residency` is "
        "trace); none",
    )
    mode: str = key(
        "tau",
        "AR or SD: fixed-ar, fixed-sd, tau (SD from a batch of tau on), cost (what the device model finds better)",
        choices=MODES,
    )
    tau: int = key(
        0,
        "smallest batch that speculates, whatever its context (0: wherever it is faster, by the device model)",
        least=0,
        unit="sequences",
    )
    depth: str = key(
        "",
        "tokens that a draft looks ahead: a number, or auto, by cost, and with it `width` and `verify` where they are "
        "not set (not set: as calibrated)",
        unit="tokens",
        kind=Kind.WORD_OR_WHOLE,
        parse=parse_depth,
        into="draft_depth",
    )
    width: int = key(
        0, "tokens of a sequence that each pass of a draft computes (0: as calibrated)", least=0, unit="tokens"
    )
    verify: int = key(
        0,
        "tokens of a sequence's tree that are verified: its depth, which is a chain, to its depth x `width` (0: as "
        "calibrated, in proportion to the depth)",
        least=0,
        unit="tokens",
    )
    objective: str = key(
        "speed", "what is chosen by cost: speed (tokens per second) or energy (tokens per joule)", choices=OBJECTIVES
    )
    acceptance: str = key(
        "published",
        "accepted drafts: published (the paper's rates), measured (rates of the bundled token model), or executed (the "
        "token model drafts with what HB holds of its experts; needs `residency` trace)",
        choices=ACCEPTANCES,
    )
    law: str = key(
        Law.REALISABLE.value,
        "how HB serves cached experts at analytic residency: realisable (never more than it holds), or published (with "
        "the hit rates of ELMoE-3D's paper, which at larger batches are more than HB holds)",
        choices=tuple(law.value for law in Law),
    )
    residency: str = key(
        "analytic",
        "what HB holds of the experts: analytic (as a law expects), or trace (a real cache, real routes; on Stratum "
        "real routes, to where each expert lies)",
        choices=("analytic", "trace"),
    )
    placement: str = key(
        "lru",
        "experts in HB, or in the fast rows of Stratum: lru (used last; there hot ones as published), hot (used most "
        "by all topics), topic (by those of the batch)",
        choices=PLACEMENTS,
    )
    usage: str = key(
        MEASURED,
        "the table of experts by topic that they are placed by: measured (the token model's), or published (one that "
        "has the emulated model's published share of hot choices, by topics that differ by chance)",
        choices=USAGES,
    )
    swap: str = key(
        OWN_SWAP,
        "when topics have experts placed anew: always (for each batch of another mix), pays (if it saves more time "
        "than it takes), or auto (as the system does: always on Stratum, else pays)",
        choices=SWAPS,
    )
    devices: int = key(1, "emulated devices", least=1, most=MOST_DEVICES, unit="devices")
    fleet: tuple[str, ...] = key(
        (),
        "devices that differ, each entry as [COUNT x ][SYSTEM/]HARDWARE[+DRAFT], for example '2 x elmoe3d-4gb'; "
        "may be given more than once",
        one="device",
    )
    router: str = key(
        LEAST_LOADED,
        "how requests find a device: round-robin, least-loaded, topic-affine, prefix-affine, or score, which may "
        "have weights ('score: load=1, topic=0.5, prefix=1')",
        parse=parse_router,
        into="router_spec",
    )
    shared_ext: int = key(
        1,
        "devices that share one slow tier (ELMoE-3D's LPDDR), its bandwidth and its capacity (1: each has its own)",
        least=1,
        most=MOST_DEVICES,
        unit="devices",
    )
    faults: tuple[str, ...] = key(
        (),
        "what breaks, and when, for example 'slow: left=0.4, device=0, at=10, for=30' (kinds: slow, fast: the memory "
        "tiers, also by the names that hardware has for its own; clock, stall, lost); may be given more than once",
        one="fault",
        parse=parse_faults,
        into="fault_specs",
    )
    seed: int = key(0, "what is left to chance in faults follows from it")
    members: tuple[Member, ...] = field(init=False, repr=False, compare=False)
    """Each device, with the system and the draft that it has."""
    fault_specs: tuple[Fault, ...] = field(init=False, repr=False, compare=False)
    router_spec: RouterSpec = field(init=False, repr=False, compare=False)
    draft_depth: DraftDepth = field(init=False, repr=False, compare=False)

    def parse_fleet(self) -> None:
        """Set the members that `fleet` stands for, beside other keys. Raise `ScenarioError`, and UnknownName if there
        is no such `draft`."""
        check_draft(self.draft)
        try:
            object.__setattr__(self, "members", self._members())
        except FleetError as error:
            raise ScenarioError(str(error), *error.keys, "fleet") from error

    def members_of(self, entry: str, what: str) -> list[Member]:
        """Return the devices that a fleet entry stands for. Raise `FleetError`, which begins with `what`."""
        return members_of(entry, self._default, self._is_traced, what)

    def check_fleet(self) -> None:
        """Raise `ScenarioError` for devices that contradict each other."""
        for wrong, keys, sentence in self._fleet_contradictions():
            if wrong:
                raise ScenarioError(sentence, *keys)

    def _members(self) -> tuple[Member, ...]:
        if not self.fleet:
            return (resolved(self._default, self._is_traced),) * self.devices
        found = tuple(member for entry in self.fleet for member in self.members_of(entry, "An entry of `fleet`"))
        if len(found) > MOST_DEVICES:
            sentence = f"`fleet` has {len(found)} devices: there may be at most {MOST_DEVICES}."
            raise ScenarioError(sentence, "fleet")
        return found

    @property
    def _default(self) -> Member:
        return Member(self.system, self.hardware, self.draft)

    @property
    def _is_traced(self) -> bool:
        return self.residency == "trace"

    def _fleet_contradictions(self) -> list[tuple[bool, tuple[str, ...], str]]:
        """Return whether each contradiction between keys holds here, the keys, and a sentence."""
        mixes = self.placement != LRU
        return [
            (
                self._is_traced and mixes and not all(places_experts(member.system) for member in self.members),
                ("residency", "placement"),
                f"`residency` is 'trace' and `placement` is {self.placement!r}: a trace is cached by LRU, except on "
                "Stratum, whose experts have places of their own.",
            ),
            (
                self.usage != MEASURED and not mixes,
                ("usage", "placement"),
                f"`usage` is {self.usage!r} and `placement` is 'lru': only experts that are placed by topic ('hot', "
                "'topic') go by a table.",
            ),
            (
                self.usage != MEASURED and self._is_traced,
                ("usage", "residency"),
                f"`usage` is {self.usage!r} and `residency` is 'trace': routes are the token model's, and so is the "
                "table that belongs to them.",
            ),
            (
                self.swap != OWN_SWAP and self.placement != TOPIC,
                ("swap", "placement"),
                f"`swap` is {self.swap!r} and `placement` is {self.placement!r}: only experts that follow topics "
                "(`placement` 'topic') are placed anew.",
            ),
            (
                self.law == Law.PUBLISHED and self._is_traced,
                ("law", "residency"),
                "`law` is 'published' and `residency` is 'trace': a real cache serves what it holds.",
            ),
            (
                self.law == Law.PUBLISHED and not any(obeys_laws(member.system) for member in self.members),
                ("law", "system"),
                f"`law` is 'published', and no device is one of its paper's, which run on hardware of the kind {KIND}.",
            ),
            *self._contradictions_without_drafts(),
            (
                self.acceptance == EXECUTED and not self._is_traced,
                ("acceptance", "residency"),
                "`acceptance` is 'executed' and `residency` is 'analytic': drafts are executed with the very experts "
                "that HB holds, which only `residency` 'trace' knows.",
            ),
            (
                self.acceptance == EXECUTED and bool(self._not_executable),
                ("acceptance", "draft"),
                f"`acceptance` is 'executed' and `draft` is {', '.join(self._not_executable)}: the token model can't "
                f"draft so; it drafts with its own weights, as {', '.join(EXECUTABLE)} do.",
            ),
            (
                bool(self.fleet) and self.devices not in (1, len(self.members)),
                ("devices", "fleet"),
                f"`devices` is {self.devices}, and `fleet` has {len(self.members)} devices: leave it out, or let them "
                "agree.",
            ),
        ]

    def _contradictions_without_drafts(self) -> list[tuple[bool, tuple[str, ...], str]]:
        """Return the same of keys that are about drafts: where nothing drafts, each says nothing."""
        plain = not any(member.draft for member in self.members)
        about = {
            "acceptance": (self.acceptance != "published", "only drafts are accepted"),
            "tau": (bool(self.tau), "it is the batch from which on drafts are made"),
            "depth": (self.draft_depth is not DepthChoice.CALIBRATED, "it is how far drafts look ahead"),
            "width": (bool(self.width), "it is how many tokens a draft's pass has"),
            "verify": (bool(self.verify), "it is how many drafted tokens are verified"),
            "objective": (self.objective != SPEED, "it chooses between drafting and not"),
        }
        own = sorted({own_draft(member.system) or "" for member in self.members} - {""})
        name_one = f" Where `residency` is 'trace', 'auto' is none; name one, as {', '.join(own)}."
        hint = name_one if own and self._is_traced and self.draft == OWN_DRAFT else ""
        return [
            (plain and given, (name, "draft"), f"`{name}` is set, and nothing drafts (`draft`): {why}.{hint}")
            for name, (given, why) in about.items()
        ]

    @property
    def _not_executable(self) -> list[str]:
        """The draft schemes of devices that the token model can't execute."""
        return sorted({member.draft for member in self.members} - {"", *EXECUTABLE})
