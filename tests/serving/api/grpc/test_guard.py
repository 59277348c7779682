"""Whom gRPC lets in to the admin's calls where there is no admin key."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from serving.api.grpc.guard import GrpcGuard
from serving.security.access import FORWARDED, Access
from serving.security.api_keys import digest

ADMIN, CLIENT = "/foreserve.v1.Admin/InjectFault", "/foreserve.v1.OpenAI/CreateCompletion"


def lets_in(access: Access, method: str, *metadata: tuple[str, str]) -> bool:
    async def go_on(details: Any) -> str:
        return "in"

    details = SimpleNamespace(method=method, invocation_metadata=metadata)
    return asyncio.run(GrpcGuard(access).intercept_service(go_on, details)) == "in"


@pytest.mark.parametrize("name", FORWARDED)
def test_without_an_admin_key_nobody_comes_by_way_of_a_proxy(name: str) -> None:
    proxied, shown = (name, "203.0.113.7"), ("authorization", "Bearer right")
    assert lets_in(Access(), ADMIN) and not lets_in(Access(), ADMIN, proxied)
    assert lets_in(Access(), CLIENT, proxied)
    keyed = Access(api=(digest("right"),))
    assert lets_in(keyed, ADMIN, shown) and not lets_in(keyed, ADMIN, shown, proxied)
    assert lets_in(keyed, CLIENT, shown, proxied)
    assert lets_in(Access(admin=(digest("right"),)), ADMIN, shown, proxied)
