"""Which nodes of a Ray cluster carry an emulation."""

from typing import Any

import pytest

from serving.cluster import cluster, placement
from serving.usage_error import UsageError

A, B, C, HEAD = ("a" * 56, "b" * 56, "c" * 56, "d" * 56)


def node(name: str, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "Resources": resources}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A head, two workers that offer, and one that did, and is gone."""
    there = [node(HEAD), node(B, foreserve=1), node(A, foreserve=1), node("e" * 56, alive=False, foreserve=1)]
    monkeypatch.setattr(placement.ray, "nodes", lambda: there)
    monkeypatch.delenv(placement.NODES, raising=False)
    return there


def test_devices_take_all_nodes_in_turn_where_nothing_else_is_said(nodes: list[dict[str, Any]]) -> None:
    assert placement.hosts() == [A, B, HEAD]
    places = [cluster.placed(index, placement.hosts()) for index in range(4)]
    assert [place["scheduling_strategy"].node_id for place in places] == [A, B, HEAD, A]
    assert all("resources" not in place for place in places)


def test_they_keep_to_the_nodes_that_offer_where_that_is_asked(
    nodes: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(placement.NODES, "1")
    assert placement.hosts() == [A, B]
    places = [cluster.placed(index, placement.hosts()) for index in range(3)]
    assert [place["scheduling_strategy"].node_id for place in places] == [A, B, A]
    # Soft affinity alone would let a device whose node dies start again on the head.
    assert all(place["resources"] == {"foreserve": placement.SHARE} for place in places)
    del nodes[1]
    assert cluster.placed(0, placement.hosts()) == {"resources": {"foreserve": placement.SHARE}}


def test_it_waits_for_them_and_says_how_many_are_missing(
    nodes: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(placement.NODES, "3")
    monkeypatch.setattr(placement, "LOOK_S", 0.01)
    with pytest.raises(UsageError, match=r"is 3, and after 0 s 2 nodes .* --resources='\{\"foreserve\": 1\}'"):
        placement.wait_for_hosts(0.03)
    looks = iter(range(3))

    def later() -> list[dict[str, Any]]:
        return [*nodes, node(C, foreserve=1)] if next(looks, None) is None else nodes

    monkeypatch.setattr(placement.ray, "nodes", later)
    placement.wait_for_hosts(5)


def test_a_number_that_is_none_is_refused_in_a_sentence(
    nodes: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(placement.NODES, "two")
    with pytest.raises(UsageError, match=r"`FORESERVE_NODES` is 'two'"):
        placement.hosts()
