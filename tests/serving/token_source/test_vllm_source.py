"""A token source of its own, with more requests than rows, with poison among them, and with too small a KV cache."""

import json
import subprocess
import sys
from typing import Any

import pytest

from serving.scenario.scenario import BUNDLED
from serving.token_source.vllm_args import on_cpu

pytestmark = pytest.mark.slow

AHEAD, MOST_TOGETHER = 256, 8

# In a process of its own: vLLM's settings are environment variables, and it keeps what it has initialised.
PROGRAM = """
import json, sys
from collections import defaultdict
from serving.token_source.engine_args import engine_args
from serving.token_source.vllm_args import prepare_environment
model = sys.argv[1]
prepare_environment(model)
from vllm import PoolingParams, SamplingParams
from vllm.v1.engine import EngineCoreRequest
from serving.token_source.cpu_type import cpu_dtype
from serving.token_source.vllm_args import WORKER
from serving.token_source.vllm_source import VllmSource

ROWS, AHEAD, BLOCKS = 4, 16, 40
got, failed, places, sent, losing, devices = defaultdict(dict), {}, {}, [0], [False], defaultdict(set)


def deliver(device, chunks):
    if losing[0]:
        return
    sent[0] += 1
    for chunk in chunks:
        devices[chunk.request_id].add(device)
        if chunk.finish == 3:
            failed[chunk.request_id], places[chunk.request_id] = chunk.stop_reason, chunk.first
        for token in chunk.tokens:
            # What is made again must be what it was.
            assert got[chunk.request_id].setdefault(chunk.first, token) == token, (chunk, got[chunk.request_id])


flags = [f"--model={model}", f"--max-num-seqs={ROWS}", "--max-model-len=512", "--no-enable-chunked-prefill",
         "--no-enable-prefix-caching", "--max-num-batched-tokens=2048", "--enforce-eager",
         f"--dtype={cpu_dtype()}", f"--worker-cls={WORKER}",
         "--logits-processors=serving.token_source.forced_replay:Replay", "--block-size=32",
         f"--num-gpu-blocks-override={BLOCKS}"]
source = VllmSource(engine_args(flags), AHEAD, deliver)


def ask(id, tokens, prompt=8, known=(), pooling=None, device=0, **params):
    source.add(EngineCoreRequest(
        request_id=id, prompt_token_ids=list(range(5, 5 + prompt)), mm_features=None,
        sampling_params=SamplingParams(max_tokens=tokens, seed=len(id), ignore_eos=True, temperature=1.0, **params),
        pooling_params=pooling, arrival_time=0.0, lora_request=None, cache_salt=None, data_parallel_rank=None), device,
        list(known))


def play(ids, tokens, most=4000):
    # A device that takes whatever is there of those requests, and of no others.
    for _ in range(most):
        if all(id in failed or len(got[id]) >= tokens for id in ids):
            return True
        source.taken({id: len(got[id]) for id in ids})
        source._carry_out(wait=True)
        if source._scheduler.has_work():
            source.cycle()
    return False


def fresh():
    source.drop(list(source.live))
    source._carry_out(wait=True)
    tokens = {id: [made for _, made in sorted(known.items())] for id, known in got.items()}
    got.clear(), failed.clear()
    return tokens


results = {}
names = ["a" * n for n in range(1, 13)]
for name in names:
    ask(name, 60)
results["many"] = play(names, 60)
reference = fresh()

# A device that serves the last of them alone, while all others are far ahead of it and fill the KV cache.
for name in names:
    ask(name, 60, prompt=100)
results["last alone"] = play(names[-1:], 60)
results["then the others"] = play(names, 60)
fresh()

# Poison: an id that no vocabulary has, past every check. Early, and late, when the others have some tokens.
for poison, when in (("early", 0), ("late", 20)):
    for name in names:
        ask(name, 60)
    play(names, when)
    ask(poison, 60, allowed_token_ids=[99_999_999])
    results[poison] = play(names, 60) and play([poison], 60)
    results[poison + " failed"] = sorted(failed)
    tokens = fresh()
    results[poison + " same"] = all(tokens[name] == reference[name] for name in names)

# Two of them among the innocent, and a client's own idea of what is known.
for name in names:
    ask(name, 60)
ask("poison1", 60, allowed_token_ids=[99_999_999])
ask("poison22", 60, allowed_token_ids=[88_888_888])
ask("dictated", 60, extra_args={"foreserve_known_tokens": [99_999_999, 1]})
results["two"] = play([*names, "dictated"], 60) and play(["poison1", "poison22"], 60)
results["two failed"] = sorted(failed)
tokens = fresh()
results["two same"] = all(tokens[name] == reference[name] for name in names)
results["dictated"] = tokens["dictated"] == reference["a" * len("dictated")]
results["left"] = [len(source.live), len(source._scheduler.running), len(source._scheduler.waiting),
                   len(source._scheduler.parked), len(source._scheduler.held), len(source._trials.on_trial)]

# Refused by the engine when another one has made some of it, as after a restart: at the token that is next.
ask("refused", 60, known=[7, 8, 9], pooling=PoolingParams(task="embed"))
source._carry_out(wait=True)
results["refused"] = [places.get("refused"), "refused" in source.live]

# A device far behind, of a request that has ample tokens: some steps' tokens go to it together, and none stay behind.
fresh()
source._ahead, sent[0] = 256, 0
ask("ample", 200)
source._carry_out(wait=True)
while source._scheduler.has_work():
    source.cycle()
source.do(lambda: None)
source.cycle()
results["ample"] = [len(got["ample"]), sent[0]]
fresh()

# The end of an answer goes to its device, however long another one keeps the source busy.
ask("ended", 190)
ask("busy", 400, device=1)
while not (source.live and "ended" in source.live and source.live["ended"].finished):
    source.taken({"busy": len(got["busy"])})
    source._carry_out(wait=True)
    source.cycle()
results["ended"] = [len(got["ended"]), source._scheduler.has_work()]
source._ahead = AHEAD
fresh()

# Four as far ahead as they may be: one token of each is no reason for a step; a quarter of one's lead is, for all.
together = names[:ROWS]
for name in together:
    ask(name, 60)
source._carry_out(wait=True)
while source._scheduler.has_work():
    source.cycle()
for taken in (1, AHEAD // 4):
    source.taken({id: 1 for id in together} | {together[0]: taken})
    source._carry_out(wait=True)
    results[f"steps after {taken}"] = source._scheduler.has_work()
source.taken({together[0]: AHEAD // 4 + 1})
source._carry_out(wait=True)
source.cycle()
results["in step"] = sorted(source._scheduler.in_step)
fresh()

# All that was sent is lost, and no more may be made: a device that asks again has it, and another one nothing.
losing[0] = True
ask("lost", 60)
source._carry_out(wait=True)
while source._scheduler.has_work():
    source.cycle()
losing[0] = False
for device in (1, 0):
    source.remind("lost", 0, device)
    source._carry_out(wait=True)
    results[f"reminded by {device}"] = len(got["lost"])
results["lost"] = play(["lost"], 60)
# It is on another device now, which the source was not told.
ask("lost", 60)
source.resend("lost", 0, 2)
source._carry_out(wait=True)
results["told twice"] = [len(source.live["lost"].chunks), len(source._scheduler.requests), 2 in devices["lost"]]
known = fresh()["lost"]

# A request that never came here is told of again, with the tokens that its client has; a drop never comes.
ask("lost", 60, known=known[:10], device=2)
source.resend("lost", 10, 2)
results["came late"] = play(["lost"], 60) and fresh()["lost"] == known
for name in names[:3]:
    ask(name, 60)
source._carry_out(wait=True)
source.keep(names[1:2])
source._carry_out(wait=True)
results["kept"] = [sorted(source.live), sorted(source._scheduler.requests)]
fresh()

# Log probabilities, of one request and of several: whatever is compiled for them keeps all others waiting.
from torch._dynamo.utils import counters
ask("told", 4, logprobs=3)
results["told"] = play(["told"], 4)
for name in names[:3]:
    ask(name, 4, logprobs=3, prompt_logprobs=2)
results["all told"] = play(names[:3], 4)
results["compiled"] = counters["stats"]["unique_graphs"]
print("RESULTS", json.dumps(results))
"""


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    model = str(BUNDLED / "foreserve-tiny")
    done = subprocess.run([sys.executable, "-c", PROGRAM, model], capture_output=True, text=True, timeout=170)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULTS ")]
    assert lines, done.stderr[-3000:]
    return dict(json.loads(lines[0].removeprefix("RESULTS ")))


def test_more_requests_than_rows_all_get_their_tokens(results: dict[str, Any]) -> None:
    assert results["many"]


def test_whom_the_device_serves_gets_tokens_though_others_fill_the_kv_cache(results: dict[str, Any]) -> None:
    assert results["last alone"]
    assert results["then the others"]


@pytest.mark.parametrize("when", ["early", "late"])
def test_a_request_that_crashes_the_engine_fails_alone(results: dict[str, Any], when: str) -> None:
    assert results[when]
    assert results[f"{when} failed"] == [when]
    assert results[f"{when} same"]


def test_two_that_crash_it_fail_and_nobody_else_does(results: dict[str, Any]) -> None:
    assert results["two"]
    assert results["two failed"] == ["poison1", "poison22"]
    assert results["two same"]


def test_tokens_of_which_a_device_has_ample_travel_together(results: dict[str, Any]) -> None:
    tokens, messages = results["ample"]
    assert tokens == 200 and messages == AHEAD // 2 - 1 + -(-(200 - AHEAD // 2 + 1) // MOST_TOGETHER)


def test_the_end_of_an_answer_does_not_wait_for_another_devices_tokens(results: dict[str, Any]) -> None:
    assert results["ended"] == [190, True]


def test_requests_go_on_together_once_one_has_used_up_a_quarter_of_its_lead(results: dict[str, Any]) -> None:
    assert not results["steps after 1"] and not results["steps after 4"]
    assert results["in step"] == ["a" * count for count in range(1, 5)]


def test_a_device_that_asks_again_has_what_was_lost_on_its_way_there(results: dict[str, Any]) -> None:
    assert (results["reminded by 1"], results["reminded by 0"]) == (0, 16)
    assert results["lost"]


def test_a_request_that_is_told_of_again_goes_on_as_it_was_or_begins(results: dict[str, Any]) -> None:
    assert results["told twice"] == [60, 0, True]
    assert results["came late"]


def test_what_was_to_be_dropped_is_so_though_that_got_lost(results: dict[str, Any]) -> None:
    assert results["kept"] == [["aa"], ["aa"]]


def test_a_client_cannot_dictate_tokens(results: dict[str, Any]) -> None:
    assert results["dictated"]


def test_a_request_that_is_refused_after_a_restart_fails_where_it_was(results: dict[str, Any]) -> None:
    assert results["refused"] == [3, False]


def test_nothing_is_left_behind(results: dict[str, Any]) -> None:
    assert results["left"] == [0] * 6


def test_nobody_waits_for_a_compiler_because_somebody_wants_log_probabilities(results: dict[str, Any]) -> None:
    assert results["told"] and results["all told"]
    assert results["compiled"] == 0 or not on_cpu()
