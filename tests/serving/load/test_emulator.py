import asyncio
from itertools import count

import pytest

from serving.load import emulator
from serving.load.emulator import Fidelity, Readings, difference, parse, settled, snapshot

METRICS = """\
# HELP foreserve_info What this emulator emulates.
# TYPE foreserve_info gauge
foreserve_info{{hardware="elmoe3d-8gb",speed="{speed}"}} 1.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0"}} 12345.0
# TYPE foreserve_step_latency_seconds histogram
foreserve_step_latency_seconds_bucket{{device="0",mode="ar",phase="decode",le="+Inf"}} {steps}
foreserve_step_latency_seconds_count{{device="0",mode="ar",phase="decode"}} {steps}
foreserve_step_latency_seconds_sum{{device="0",mode="ar",phase="decode"}} {step_s}
foreserve_step_latency_seconds_count{{device="1",mode="ar",phase="prefill"}} 10
foreserve_step_latency_seconds_sum{{device="1",mode="ar",phase="prefill"}} 0.5
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_count{{engine="0"}} {steps}
vllm:time_to_first_token_seconds_sum{{engine="0"}} {step_s}
# TYPE foreserve_delivery_delay_seconds histogram
foreserve_delivery_delay_seconds_count{{device="0"}} {steps}
foreserve_delivery_delay_seconds_sum{{device="0"}} {late_s}
# TYPE foreserve_pacing_error_seconds histogram
foreserve_pacing_error_seconds_count{{device="0"}} {steps}
foreserve_pacing_error_seconds_sum{{device="0"}} {late_s}
# TYPE foreserve_underruns_total counter
foreserve_underruns_total{{device="0"}} {underruns}
# TYPE foreserve_released_tokens_total counter
foreserve_released_tokens_total{{device="0"}} {tokens}
foreserve_released_tokens_total{{device="1"}} {tokens}
# TYPE foreserve_energy_joules_total counter
foreserve_energy_joules_total{{component="hb",device="0"}} {joules}
foreserve_energy_joules_total{{component="link",device="0"}} {joules}
"""


def metrics(steps=0, step_s=0.0, late_s=0.0, underruns=0, tokens=0, joules=0.0, speed=1.0) -> str:
    return METRICS.format(
        steps=steps, step_s=step_s, late_s=late_s, underruns=underruns, tokens=tokens, joules=joules, speed=speed
    )


def run(before: str, after: str | None) -> Fidelity:
    return difference(parse(before), parse(after) if after else None)


def test_a_run_is_the_difference_of_two_readings():
    f = run(metrics(100, 9.0, 0.9, 3, 50, 7.0), metrics(300, 13.0, 1.0, 4, 150, 17.0))
    assert f.step_mean_s == pytest.approx(0.02)
    assert f.lateness_mean_s == pytest.approx(0.0005)
    assert f.pacing_error_mean_s == pytest.approx(0.0005)
    assert f.lateness_share == pytest.approx(0.025)
    assert (f.underruns, f.released_tokens) == (1, 200)
    assert f.joules_per_token == pytest.approx(0.1)
    assert f.info["hardware"] == "elmoe3d-8gb"
    assert f.refusal() is None


def test_the_devices_own_pace_between_tokens_and_the_tail_of_lateness_are_told():
    def more(requests: int, sum_s: float, late: int) -> str:
        tpot, delay = "vllm:request_time_per_output_token_seconds", "foreserve_delivery_delay_seconds"
        buckets = "".join(f'{delay}_bucket{{le="{le}"}} {count}\n' for le, count in (("0.01", 99), ("0.03", 99 + late)))
        return f"{tpot}_count {requests}\n{tpot}_sum {sum_s}\n{buckets}" if requests else ""

    quiet, busy = (run(metrics(), metrics(100) + more(4, 0.1, late)) for late in (0, 2))
    assert quiet.tpot_mean_s == pytest.approx(0.025)
    assert (quiet.lateness_p99_s, busy.lateness_p99_s) == (0.01, 0.03)
    slow = run(metrics(speed=0.1), metrics(100, speed=0.1) + more(4, 0.1, 0))
    assert slow.tpot_mean_s == pytest.approx(0.025) and slow.lateness_p99_s == pytest.approx(0.001)
    assert run(metrics(), metrics(100)).lateness_p99_s is None


def test_prompts_that_caches_had_are_told_as_a_share():
    def more(tokens: int, cached: int) -> str:
        counts = (("prompt_tokens_total", tokens), ("prompt_tokens_cached_total", cached))
        return "".join(f'vllm:{name}{{engine="{engine}"}} {count}\n' for name, count in counts for engine in "01")

    assert run(metrics() + more(100, 90), metrics() + more(300, 140)).cached_share == 0.25
    assert run(metrics(), metrics()).cached_share == 0.0


def test_lateness_is_put_on_the_emulated_clock():
    f = run(metrics(speed=0.1), metrics(100, 2.0, 0.5, tokens=100, speed=0.1))
    assert f.lateness_mean_s == pytest.approx(0.0005)
    assert f.lateness_share == pytest.approx(0.025)


def test_a_late_host_gets_no_verdict_and_is_told_by_how_much():
    refusal = run(metrics(), metrics(100, 2.0, 0.2, tokens=100)).refusal()
    assert "host is too slow" in refusal
    assert "2 ms late" in refusal and "10.0% of the modelled TTFT of 20 ms" in refusal


def test_the_limit_itself_is_kept():
    assert run(metrics(), metrics(1000, 20.0, 0.99, tokens=100)).refusal() is None
    assert run(metrics(), metrics(1000, 20.0, 1.01, tokens=100)).refusal()


def test_a_dry_buffer_gets_no_verdict_either():
    assert run(metrics(), metrics(100, 2.0, 0.0, 9, 100)).refusal() is None
    assert "11.0% of the tokens" in run(metrics(), metrics(100, 2.0, 0.0, 22, 100)).refusal()


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (None, "no longer answers"),
        (metrics(10, 0.2, 0.0, 0, 5), "restarted"),
        (metrics(200, 4.0, 0.0, 0, 200, speed=2.0), "speed changed"),
        (metrics(100, 2.0, 0.1, 0, 100), "counted no steps"),
    ],
)
def test_readings_that_cannot_be_compared_give_no_verdict(after, why):
    f = run(metrics(100, 2.0, 0.1, 0, 100), after)
    assert f.lateness_share is None
    assert f.refusal().startswith("No SLO verdict:") and why in f.refusal()


def test_a_restart_of_a_server_that_had_done_nothing_before_gives_no_verdict():
    before, after = metrics(), metrics(300, 6.0, 0.1, tokens=300)
    one, other = (f"process_start_time_seconds {began_s}\n" for began_s in (1.7640e09, 1.7641e09))
    assert run(before + one, after + one).refusal() is None
    assert "restarted" in run(before + one, after + other).refusal()


def test_other_servers_metrics_are_not_an_emulators():
    assert parse("vllm:num_requests_running 3\n") is None
    assert parse("<html>") is None
    assert parse("") is None


def test_no_emulator_is_also_one_whose_text_cannot_be_read():
    assert parse("foreserve_info{speed=\n") is None


def test_an_emulator_has_settled_though_it_draws_power_while_it_idles(monkeypatch):
    monkeypatch.setattr(emulator, "SETTLE_S", 0.0)
    reads, tokens = count(1), [100, 150, 200, 200, 999]

    async def read():
        number = next(reads)
        idle = f'foreserve_idle_energy_joules_total{{device="0"}} {3.5 * number}\nforeserve_power_watts {9 / number}\n'
        return metrics(tokens=tokens[number - 1]) + idle

    after = asyncio.run(settled(read))
    assert difference(parse(metrics()), after).released_tokens == 2 * 200
    assert next(reads) == 5


def with_gone(tokens: int, gone: int | None) -> str:
    """Metrics of two devices, and of a third one, which is gone: its series have ended where it has no tokens."""
    released = f'foreserve_released_tokens_total{{device="2"}} {gone}\n'
    return metrics(100 + tokens, tokens=tokens) + (released if gone is not None else "")


def test_what_a_device_did_that_is_gone_by_the_end_is_the_runs_too():
    texts = [with_gone(10, 40), None, "<html>", with_gone(20, 100), with_gone(30, None)]

    async def read():
        return texts.pop(0)

    async def run():
        readings = Readings(read)
        return [await snapshot(readings.read) for _ in range(5)]

    before, nothing, other, _, after = asyncio.run(run())
    fidelity = difference(before, after)
    assert fidelity.released_tokens == 2 * (30 - 10) + (100 - 40) and fidelity.broken is None
    assert nothing is None and other is None


def test_another_process_is_not_taken_for_the_one_whose_series_have_ended():
    began = "process_start_time_seconds {}\n"
    texts = [with_gone(10, 40) + began.format(1.0), with_gone(5, None) + began.format(2.0)]

    async def read():
        return texts.pop(0)

    async def run():
        readings = Readings(read)
        return [await snapshot(readings.read) for _ in range(2)]

    assert "restarted" in difference(*asyncio.run(run())).refusal()
