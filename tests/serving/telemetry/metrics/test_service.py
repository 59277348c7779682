"""Do the metrics say what became of requests: served in time, waiting, refused?"""

from itertools import product

from serving.cluster.node import State
from serving.refusals import Reason, Refusal
from serving.scenario.slo import OWN_TARGETS
from serving.telemetry.metrics.service import NO_TOPIC
from tests.serving.telemetry.metrics.samples import Clock, finish, flight, measured, node


def test_what_is_rare_is_counted_from_nought() -> None:
    metrics, registry = measured(devices=2)
    rare = [
        ("foreserve_actor_restarts_total", {"actor": "token source"}),
        ("foreserve_actor_restarts_total", {"actor": "device 1"}),
        ("foreserve_faults_total", {"device": "1", "kind": "lost"}),
        ("foreserve_rejections_total", {"slo_class": "batch", "reason": "ttft"}),
        ("foreserve_rejections_total", {"slo_class": "none", "reason": "tokens_per_min"}),
    ]
    assert [registry.get_sample_value(*each) for each in rare] == [0] * len(rare)
    metrics.on_restart("device 1")
    metrics.on_change(node(1))
    assert registry.get_sample_value(*rare[1]) == 1


def test_of_a_class_that_is_turned_away_as_a_whole_there_are_requests_to_divide_by() -> None:
    metrics, registry = measured()
    metrics.on_refusal(Refusal(Reason.TTFT, "", slo=OWN_TARGETS), None)
    ended = {"slo_class": OWN_TARGETS, "topic": NO_TOPIC, "met": "true"}
    assert registry.get_sample_value("foreserve_slo_requests_total", ended) == 0
    assert registry.get_sample_value("foreserve_rejections_total", {"slo_class": OWN_TARGETS, "reason": "ttft"}) == 1


def test_of_a_topic_the_first_miss_is_seen_by_a_rate() -> None:
    metrics, registry = measured()
    metrics.on_begin(flight("interactive", 0.5, topic="law"))
    metrics.on_begin(flight(ttft_s=9.0))
    begun = [("interactive", "law"), (OWN_TARGETS, NO_TOPIC)]
    for (slo, topic), met in product(begun, ("true", "false")):
        ended = {"slo_class": slo, "topic": topic, "met": met}
        assert registry.get_sample_value("foreserve_slo_requests_total", ended) == 0
        assert registry.get_sample_value("foreserve_slo_tokens_total", {"slo_class": slo, "met": met}) == 0
    assert registry.get_sample_value("foreserve_slo_misses_total", {"slo_class": OWN_TARGETS, "target": "ttft"}) == 0


def test_attainment_is_joint_and_by_class_and_topic() -> None:
    metrics, registry = measured()
    good, late, slow = (flight("interactive", 0.5, 0.05, "math") for _ in range(3))
    for each, first_s, last_s in ((good, 1.4, 1.45), (late, 1.6, 1.65), (slow, 1.4, 2.0)):
        each.take([1], first_s)
        each.take([2, 3], last_s)
        finish(metrics, each, "stop")
    lost = flight("interactive", 0.5, topic="cs")
    metrics.on_begin(lost)
    finish(metrics, lost, "error")
    never, gone, free = flight("interactive", 0.5), flight("interactive", 0.5), flight()
    finish(metrics, never, "error")
    finish(metrics, gone, "abort")
    finish(metrics, free, "length")
    own = flight(ttft_s=9.0)
    metrics.on_begin(own)
    finish(metrics, own, "error")

    def counted(slo: str, met: str, topic: str = "math") -> float | None:
        labels = {"slo_class": slo, "topic": topic, "met": met}
        return registry.get_sample_value("foreserve_slo_requests_total", labels)

    assert (counted("interactive", "true"), counted("interactive", "false")) == (1, 2)
    assert (counted("interactive", "true", "cs"), counted("interactive", "false", "cs")) == (0, 1)
    assert counted("interactive", "false", "unknown") == 1
    assert counted("none", "true", "unknown") == 1
    assert (counted("custom", "true", "unknown"), counted("custom", "false", "unknown")) == (0, 1)
    misses = metrics.service.misses.values
    assert (misses["interactive", "ttft"], misses["interactive", "tpot"]) == (3, 1)


def test_the_queue_is_looked_at_when_somebody_scrapes() -> None:
    clock = Clock()
    metrics, registry = measured(clock=clock)
    waiting, begun = flight("batch", topic="law"), flight()
    begun.started_s = 1.0
    clock.until(4.0)
    for each in (waiting, begun):
        metrics.on_begin(each)
    labels = {"device": "0", "topic": "law", "slo_class": "batch"}
    assert registry.get_sample_value("foreserve_queue_requests", labels) == 1
    assert registry.get_sample_value("foreserve_queue_oldest_seconds", {"device": "0"}) == 3
    waiting.started_s = 2.0
    assert registry.get_sample_value("foreserve_queue_requests", labels) == 0
    metrics.on_change(node(0, State.GONE))
    assert registry.get_sample_value("foreserve_queue_requests", labels) is None
    assert registry.get_sample_value("foreserve_queue_oldest_seconds", {"device": "0"}) is None


def test_requests_that_a_device_has_not_looked_at_yet_wait() -> None:
    metrics, registry = measured()
    begun = flight()
    begun.started_s = 1.0
    flights = [flight(), flight(), begun]
    for each in flights:
        metrics.on_begin(each)
    labels = {"model_name": "m", "engine": "0"}
    assert registry.get_sample_value("vllm:num_requests_waiting", labels) == 2
    assert registry.get_sample_value("vllm:num_requests_running", labels) == 1
    for each in flights:
        finish(metrics, each, "abort")
    assert registry.get_sample_value("vllm:num_requests_waiting", labels) == 0
