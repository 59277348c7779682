"""Who is turned away in virtual time, what becomes of a lost device's requests, and do real caches matter there too?"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.refusals import Reason, Refusal
from serving.reports.policy_comparison import mixed
from serving.scenario.scenario import Scenario
from serving.simulation.node import NOWHERE, Outcome, VirtualObserver
from serving.simulation.play import play
from serving.simulation.simulator import Simulator
from serving.types import Request
from serving.workload.source import AFTER_FAILURE_S
from serving.workload.spec import Workload, workload_of
from serving.workload.table import WorkloadTable
from tests.examples import examples

LOST = ("lost: device=1, at=10, for=20",)


def workload(**tables: object) -> Workload:
    return workload_of(WorkloadTable({"prompt": 200, "output": 60} | tables, Path("workload.toml")))


def crowd(count: int, every_s: float, **fields: object) -> list[Request]:
    return [Request(str(i), i * every_s, 200, 80, seed=i, **fields) for i in range(count)]  # type: ignore[arg-type]


def told(outcomes: list[Outcome]) -> list[object]:
    return [(each.device, each.started_s, each.tokens_s, each.refused) for each in outcomes]


def test_requests_of_a_lost_device_go_on_elsewhere_with_all_their_tokens() -> None:
    outcomes, records = Simulator(Scenario(devices=2, faults=LOST)).serve(crowd(200, 0.2))
    untouched, _ = Simulator(Scenario(devices=2)).serve(crowd(200, 0.2))
    assert all(len(each.tokens_s) == each.tokens == 80 and not each.refused for each in outcomes)
    assert all(one <= other for each in outcomes for one, other in pairwise(each.tokens_s))
    steps = [record for record in records if record.device == 1]
    assert not any(record.start_s + record.latency_s > 10 and record.start_s < 30 for record in steps)
    assert any(record.start_s >= 30 for record in steps)
    moved = [each for each in outcomes if each.before_s]
    assert moved and all(each.device == 0 and max(each.before_s) <= 10 < each.last_s for each in moved)
    assert {each.device for each in outcomes if 10 < each.request.arrival_s < 30} == {0}
    # What had been computed is computed again.
    assert sum(each.tpot_s for each in outcomes) > sum(each.tpot_s for each in untouched)


def test_what_goes_on_elsewhere_does_so_after_the_loss() -> None:
    """The other device has been idle since its request ended, long before."""
    scenario = Scenario(devices=2, router="round-robin", faults=("lost: device=1, at=2",))
    outcomes, records = Simulator(scenario).serve(
        [Request("0", 0.0, 20, 2, seed=0), Request("1", 0.5, 200, 600, seed=1)]
    )
    moved = outcomes[1]
    assert moved.device == 0 and moved.before_s and moved.tokens_s == sorted(moved.tokens_s)
    assert all(record.start_s >= 2 for record in records if record.device == 0 and record.start_s > 0.5)
    assert moved.tokens_s[len(moved.before_s)] > 2


def test_the_last_device_is_not_lost() -> None:
    faults = ("lost: device=0, at=1, for=5", "lost: device=1, at=2, for=1")
    outcomes, records = Simulator(Scenario(devices=2, faults=faults)).serve(crowd(60, 0.1))
    assert all(each.tokens == 80 for each in outcomes)
    assert any(record.device == 1 and 2 < record.start_s < 3 for record in records)


@pytest.mark.slow
@examples(8)
@given(
    seed=st.integers(0, 10**6),
    rate_per_s=st.sampled_from([1.0, 5.0, 50.0]),
    faults=st.sampled_from(
        [
            ("lost: device=0, at=2, for=3",),
            ("lost: rate=20, for=1.5, device=2", "clock: left=0.5, at=3, for=4"),
            ("lost: device=1, at=1, for=2", "lost: device=1, at=2, for=4", "stall: for=0.5, rate=20"),
        ]
    ),
    mode=st.sampled_from(["fixed-ar", "tau"]),
)
def test_steps_made_at_once_are_those_made_one_by_one_where_devices_are_lost(
    seed: int, rate_per_s: float, faults: tuple[str, ...], mode: str
) -> None:
    scenario = Scenario(devices=3, faults=faults, mode=mode, max_num_seqs=8)
    requests = mixed(40, seed, rate_per_s)
    at_once, leapt = Simulator(scenario).serve(requests)
    one_by_one, made = Simulator(scenario, leaps=False).serve(requests)
    assert told(at_once) == told(one_by_one)
    assert sum(record.steps for record in leapt) == len(made)


def test_a_full_queue_turns_away_and_takes_on_again() -> None:
    outcomes, _ = Simulator(Scenario(max_queue=10)).serve(crowd(30, 0.0))
    assert [each.refused for each in outcomes] == [None] * 10 + [Reason.QUEUE] * 20
    assert all(each.device == NOWHERE and not each.tokens_s and not each.good for each in outcomes[10:])
    later = [Request("later", 1000.0, 10, 10)]
    assert not Simulator(Scenario(max_queue=10)).serve(crowd(30, 0.0) + later)[0][-1].refused


def test_requests_that_are_moved_take_one_place() -> None:
    scenario = Scenario(devices=2, max_num_seqs=1, max_queue=12, faults=("lost: device=1, at=0.01",))
    later = [Request(f"later {i}", 1000.0, 10, 10) for i in range(12)]
    outcomes, _ = Simulator(scenario).serve(crowd(12, 0.0) + later)
    assert not any(each.refused for each in outcomes)


def test_what_no_device_has_room_for_is_turned_away() -> None:
    requests = [Request("fits", 0.0, 3000, 96), Request("too long", 0.0, 3001, 96)]
    outcomes, _ = Simulator(Scenario(max_model_len=3096)).serve(requests)
    assert [each.refused for each in outcomes] == [None, Reason.TOO_LONG]


def test_keys_have_their_limits_by_the_minute() -> None:
    scenario = Scenario(key_requests_per_min=6, key_tokens_per_min=5000, api_keys=("a", "b"))
    requests = [Request(str(i), i * 2.0, 100, 20, key="ab"[i % 2], seed=i) for i in range(60)]
    outcomes, _ = Simulator(scenario).serve([*requests, Request("huge", 120.0, 5000, 1, key="a")])
    for key in "ab":
        taken = [each for each in outcomes[:-1] if each.request.key == key and not each.refused]
        assert 15 <= len(taken) <= 18  # six at once, and six a minute for two minutes
    assert {each.refused for each in outcomes} == {None, Reason.REQUESTS, Reason.TOO_LARGE}
    assert outcomes[-1].refused == Reason.TOO_LARGE


@pytest.mark.parametrize("said", ["file", "FORESERVE_API_KEYS", "VLLM_API_KEY"])
def test_keys_are_those_that_a_server_would_have(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = Scenario(key_requests_per_min=6, key_tokens_per_min=5000)
    requests = [Request(str(i), i * 0.5, 100, 20, key="abcdef"[i % 6], seed=i) for i in range(120)]
    in_scenario = told(Simulator(replace(limited, api_keys=tuple("abcdef"))).serve(requests)[0])
    as_one = told(Simulator(limited).serve(requests)[0])
    file = tmp_path / "keys"
    file.write_text("\n".join("abcdef"))
    if said == "file":
        limited = replace(limited, api_key_file=str(file))
    else:
        monkeypatch.setenv(said, "a,b,c,d,e,f")
    assert told(Simulator(limited).serve(requests)[0]) == in_scenario != as_one


def test_without_keys_all_share_a_device_as_one_and_rows_still_tell_them_apart() -> None:
    requests = [Request(str(i), 0.0, 100, 20, key="a" if i < 40 else "b", seed=i) for i in range(60)]
    scenario = Scenario(max_num_seqs=4, fairness="tokens", faults=("lost: device=1, at=1",), devices=2)
    runs = [Simulator(each).serve(requests)[0] for each in (scenario, replace(scenario, fairness="none"))]
    assert told(runs[0]) == told(runs[1])
    assert [each.key for each in runs[0]] == [each.key for each in requests]
    keyed = Simulator(replace(scenario, api_keys=("a", "b"))).serve(requests)[0]
    assert told(keyed) != told(runs[0])


HURRIED = {"arrivals": {"kind": "poisson", "rate_per_s": 30.0}, "slo": {"interactive": 1.0}, "requests": 300}


def test_who_would_be_late_is_turned_away_and_others_are_served_in_time() -> None:
    patient, _ = play(workload(**HURRIED), Scenario(early_rejection=False))
    judged, _ = play(workload(**HURRIED), Scenario())
    again, _ = play(workload(**HURRIED), Scenario())
    assert told(judged) == told(again)
    refused = [each for each in judged if each.refused]
    assert {each.refused for each in refused} == {Reason.TTFT} and 0 < len(refused) < 300
    served = [each for each in judged if not each.refused]

    def in_time(outcomes: list[Outcome]) -> float:
        return sum(each.ttft_s <= each.request.ttft_s for each in outcomes) / len(outcomes)

    assert in_time(served) > 0.7 > 0.5 > in_time(patient)


def test_a_default_class_is_that_of_who_names_none() -> None:
    plain = {name: value for name, value in HURRIED.items() if name != "slo"}
    outcomes, _ = play(workload(**plain), Scenario(default_slo="interactive"))
    assert {each.request.ttft_s for each in outcomes} == {0.5}
    assert any(each.refused for each in outcomes)


def test_a_user_who_is_turned_away_comes_back_a_second_later() -> None:
    users = workload(arrivals={"kind": "closed", "users": 4}, requests=24)
    outcomes, _ = play(users, Scenario(max_queue=2))
    refused = [each.request.arrival_s for each in outcomes if each.refused]
    assert refused[:2] == [0.0, 0.0] and refused[2:4] == [AFTER_FAILURE_S] * 2
    assert len(outcomes) == 24


TRACED = Scenario(residency="trace", hardware="elmoe3d-4gb", max_num_seqs=16)


def test_a_traced_device_in_virtual_time_is_the_same_each_time() -> None:
    requests = mixed(30, seed=3, rate_per_s=5.0)
    runs = [Simulator(TRACED).serve(requests) for _ in range(2)]
    assert told(runs[0][0]) == told(runs[1][0])
    assert runs[0][1] == runs[1][1]


def hit_rate(hardware: str, topics: list[str]) -> float:
    requests = [Request(str(i), 0.0, 60, 40, seed=977 * i, topic=topics[i % len(topics)]) for i in range(24)]
    _, records = Simulator(Scenario(residency="trace", hardware=hardware, max_num_seqs=6)).serve(requests)
    decoding = [record for record in records if record.phase == "decode"]
    return sum(each.expert_hits for each in decoding) / sum(each.expert_lookups for each in decoding)


def test_a_traced_device_finds_more_in_a_larger_cache_and_where_requests_share_a_topic() -> None:
    topics = ["cs", "legal", "math", "science", "humanities", "logic"]
    assert 0 < hit_rate("elmoe3d-4gb", topics) < hit_rate("elmoe3d-8gb", topics) < 1
    alike = sum(hit_rate("elmoe3d-8gb", [topic]) for topic in topics) / len(topics)
    assert hit_rate("elmoe3d-8gb", topics) < alike


def test_a_traced_device_keeps_its_cache_in_a_fault_and_is_cold_after_a_loss() -> None:
    requests = mixed(60, seed=3, rate_per_s=4.0)

    def first_hits(fault: str) -> float:
        scenario = Scenario(residency="trace", devices=2, max_num_seqs=16, faults=(fault,))
        _, records = Simulator(scenario).serve(requests)
        return next(each.expert_hits for each in records if each.device == 0 and each.start_s >= 6.0)

    assert first_hits("lost: device=0, at=5, for=1") == 0 < first_hits("clock: left=0.9, device=0, at=5")


@pytest.mark.parametrize("leaps", [False, True])
def test_requests_that_were_turned_away_are_told_to_observers(leaps: bool) -> None:
    class Heard(VirtualObserver):
        def __init__(self) -> None:
            self.refused: list[Reason] = []

        def on_refusal(self, refusal: Refusal, flight: Outcome | None) -> None:
            assert flight is not None and flight.refused is refusal.reason
            self.refused.append(refusal.reason)

    heard = Heard()
    Simulator(Scenario(max_queue=10), leaps, heard).serve(crowd(30, 0.0))
    assert heard.refused == [Reason.QUEUE] * 20
