"""The devices of an emulation, as a scenario or an operator writes them: `2 x elmoe3d/elmoe3d-4gb+elastic`."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from device_model.load import DRAFTS, own_draft
from device_model.specs.hardware_file import is_file, system_of
from device_model.specs.spec import UnknownName
from device_model.specs.spec_file import check_name
from serving.usage_error import UsageError

MOST_DEVICES = 256
# A file of hardware is one with a path: what stands before a single slash is a system.
FILE = r"\.{0,2}/[^+\s]*\.toml"
ENTRY = re.compile(
    rf"(?:(?P<count>\d{{1,9}})\s*x\s+)?(?:(?P<system>\w[\w.-]*)/)?(?P<hardware>{FILE}|[\w.-]+)(?:\+(?P<draft>[\w.-]+))?"
)
NO_DRAFT, OWN_DRAFT = "none", "auto"

SYNTAX = (
    f"[COUNT x ][SYSTEM/]HARDWARE[+DRAFT], where HARDWARE is a name or ./FILE.toml, and {NO_DRAFT!r} plain decoding"
)


class FleetError(UsageError):
    """Devices that cannot be; the message is a sentence."""


class Member(NamedTuple):
    """One device, by the names of its files; `draft` is "" for plain decoding."""

    system: str
    hardware: str
    draft: str

    def __str__(self) -> str:
        return f"{self.system}/{self.hardware}" + (f"+{self.draft}" if self.draft else "")


def parse_entry(text: str, default: Member, what: str) -> list[Member]:
    """Return the devices that one entry stands for; the system and the draft that it does not name are `default`'s.

    Raise `FleetError`, which begins with `what`.
    """
    match = ENTRY.fullmatch(text.strip())
    if match is None or not 1 <= int(match["count"] or 1) <= MOST_DEVICES:
        raise FleetError(f"{what} is {text!r}: it must be {SYNTAX}, and the count from 1 to {MOST_DEVICES}.")
    draft = match["draft"] or default.draft
    member = Member(match["system"] or default.system, match["hardware"], "" if draft == NO_DRAFT else draft)
    return [member] * int(match["count"] or 1)


def members_of(entry: str, default: Member, traced: bool, what: str) -> list[Member]:
    """Return the devices that one entry stands for, as `parse_entry` and `resolved` do. Raise `FleetError`, which
    begins with `what`."""
    members = parse_entry(entry, default, what)
    try:
        check_draft(members[0].draft)
    except UnknownName as error:
        raise FleetError(f"{what} is {entry!r}: {error}") from error
    return [resolved(member, traced) for member in members]


def check_draft(draft: str) -> None:
    """Raise UnknownName, with all that is allowed, unless a member can be written with a draft; "" is none."""
    if draft:
        check_name(draft, "draft scheme", DRAFTS, ".py", also=(NO_DRAFT, OWN_DRAFT))


def resolved(member: Member, traced: bool) -> Member:
    """Return a device as it is written, with the system and the draft that it has."""
    member = member._replace(hardware=located(member.hardware))
    member = member._replace(system=system_of(member.system, member.hardware))
    return member._replace(draft=draft_of(member, traced))


def located(hardware: str) -> str:
    """Return the name of hardware as a device has it: a file's is the whole path, as other processes may work in
    another folder."""
    return str(Path(hardware).absolute()) if is_file(hardware) else hardware


def draft_of(member: Member, traced: bool) -> str:
    """Return the draft scheme that a member is written with, or ("auto") that its system speculates with in its paper,
    but none where the cache is `traced`. "" for none."""
    if member.draft == OWN_DRAFT:
        return "" if traced else own_draft(member.system) or ""
    return "" if member.draft == NO_DRAFT else member.draft


def described(members: Iterable[Member]) -> str:
    """Devices in a few words, equal neighbours counted."""
    runs: list[tuple[str, int]] = []
    for member in members:
        if runs and runs[-1][0] == str(member):
            runs[-1] = (str(member), runs[-1][1] + 1)
        else:
            runs.append((str(member), 1))
    return ", ".join(f"{count} x {name}" for name, count in runs)
