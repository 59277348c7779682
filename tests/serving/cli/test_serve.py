"""`foreserve serve` with one option and with another: what changes, and what must not."""

from pathlib import Path

import httpx
import openai
import pytest

from serving.process.server_process import server
from serving.telemetry.step_log import read_step_log


def answer(base_url: str, tokens: int) -> str:
    client = openai.OpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0)
    question = [{"role": "user", "content": "What is a contract?"}]
    reply = client.chat.completions.create(
        model="qwen3-30b-a3b",
        messages=question,
        max_tokens=tokens,
        seed=1,
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    return reply.choices[0].message.content or ""


@pytest.mark.slow
def test_tracing_and_drafting_change_when_a_text_comes_and_what_it_costs_but_not_the_text(tmp_path: Path) -> None:
    texts, steps = {}, {}
    executed = ("--residency", "trace", "--draft", "elastic", "--mode", "fixed-sd", "--acceptance", "executed")
    of_each = {"trace": ("--residency", "trace"), "sd": ("--mode", "fixed-sd"), "executed": executed}
    for name, options in of_each.items():
        log = tmp_path / f"{name}.jsonl"
        with server("--speed", "0.5", "--step-log", str(log), *options, quiet=True) as child:
            texts[name] = answer(child.http_url, 40)
            metrics = httpx.get(f"{child.http_url}/metrics").text
        steps[name] = [step for step in read_step_log(log) if step.phase == "decode"]
        assert ('draft="elastic"' in metrics) == (name != "trace")
    assert texts["trace"] == texts["sd"] == texts["executed"]
    trace, sd = steps["trace"], steps["sd"]
    assert {step.mode for step in trace} == {"ar"} and len(trace) >= 39
    # Whole experts of whole layers: nothing of it is an expected value.
    assert all(step.expert_hits == int(step.expert_hits) for step in trace)
    assert len({step.expert_hits for step in trace}) > 3 and sum(step.expert_hits for step in trace) > 0
    assert {step.mode for step in sd} == {"sd"} and len(sd) < 30
    assert sum(step.accepted + 1 for step in sd) >= 39
    drafted = steps["executed"]
    assert {step.mode for step in drafted} == {"sd"} and sum(step.accepted + 1 for step in drafted) >= 39
    assert all(step.expert_hits == int(step.expert_hits) for step in drafted) and sum(s.accepted for s in drafted) > 10
