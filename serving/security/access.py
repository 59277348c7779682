"""Access rules: what a call needs, and whether its key gives it. HTTP and gRPC share them."""

import ipaddress
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from serving.scenario.listen_options import ListenOptions
from serving.security.api_keys import admin_keys, api_keys, digest

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers, or metadata, by which a proxy tells of its client."""

KEYLESS = "Without an admin key, admin requests must"
PROXIED = f"{KEYLESS} not come by way of a proxy."
WANTED = "send `Authorization: Bearer <key>`"


class Need(Enum):
    """The access that a call needs."""

    NOTHING = auto()
    API_KEY = auto()
    ADMIN_KEY = auto()


@dataclass(frozen=True, slots=True)
class AccessDenial:
    """A denial of access, in a sentence. A stranger has shown no key of ours; others one that isn't enough."""

    stranger: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Access:
    """The digests of the keys of clients and of the admin, and whether only this machine can reach us."""

    api: tuple[bytes, ...] = ()
    admin: tuple[bytes, ...] = ()
    loopback: bool = True

    @staticmethod
    def of(options: ListenOptions) -> "Access":
        """Return the access of a scenario, with the keys of its files and of the environment. Raise `ScenarioError`."""
        api, admin = (tuple(map(digest, keys)) for keys in (api_keys(options), admin_keys(options)))
        return Access(api, admin, is_loopback(options.host))

    def denied(self, need: Need, authorization: str, strange: Callable[[], str] = lambda: "") -> AccessDenial | None:
        """Return the denial of a call with this header, or metadata; None if it is let in. The admin's key opens all.

        `strange` tells why a call that came from this machine is not its own ("" if it is): where there is no admin
        key, it is not the admin's.
        """
        if need is Need.NOTHING:
            return None
        # Both always: how long it takes says nothing about which keys there are.
        is_client, is_admin = shows(authorization, self.api), shows(authorization, self.admin)
        if is_admin:
            return None
        if self.api and not is_client and (need is Need.API_KEY or not self.admin):
            return AccessDenial(True, f"This server wants one of its API keys: {WANTED}.")
        if need is Need.API_KEY:
            return None
        denied = self._not_admin(is_client)
        return AccessDenial(False, why) if denied is None and (why := strange()) else denied

    def _not_admin(self, is_client: bool) -> AccessDenial | None:
        """Return the denial of whoever is not the admin, but may be a client; None if everybody is let in."""
        if self.admin:
            return AccessDenial(not is_client, f"This is the admin's, whose key is none of the API keys: {WANTED}.")
        if self.loopback:
            return None
        return AccessDenial(
            False,
            "This is the admin's, and there is no admin yet: the server listens beyond this machine, and was given no "
            "key for it with --admin-key-file or FORESERVE_ADMIN_KEY.",
        )


def shows(authorization: str, digests: Iterable[bytes]) -> bool:
    """Tell whether it is `Bearer` and one of the keys. All are compared, each in constant time."""
    scheme, _, token = authorization.partition(" ")
    given = digest(token)
    matches = [secrets.compare_digest(given, each) for each in digests]
    return scheme.lower() == "bearer" and any(matches)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address. A name other than localhost may be anybody's."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def concerns(access: Access, host: str, encrypted: bool) -> list[str]:
    """Return sentences that warn whoever starts a server on such an address."""
    if access.loopback:
        return []
    found = []
    if not access.api:
        found.append(f"Whoever reaches {host} may send requests: set --api-key-file or FORESERVE_API_KEYS.")
    if (access.api or access.admin) and not encrypted:
        found.append(f"Keys come to {host} in the clear: set --tls-cert and --tls-key, or have a proxy do it.")
    return found
