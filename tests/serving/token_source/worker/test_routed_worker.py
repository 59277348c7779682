"""Are the experts that vLLM's worker tells of those that the model's routers choose?"""

import json
import subprocess
import sys

import pytest

from serving.scenario.scenario import BUNDLED_MODEL

pytestmark = pytest.mark.slow

# In a process of its own: vLLM's settings are environment variables, and it keeps what it has initialised.
PROGRAM = """
import json, sys
import numpy as np
from serving.token_source.vllm_args import prepare_environment
model = sys.argv[1]
prepare_environment(model)
import torch
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams

llm = LLM(model, enforce_eager=True, dtype="float32", max_model_len=512, enable_prefix_caching=False,
          num_gpu_blocks_override=6, block_size=128,
          worker_cls="serving.token_source.worker.routed_worker.RoutedWorker",
          scheduler_cls="serving.token_source.scheduler.RunAheadScheduler")
draw = np.random.default_rng(0)
prompts = [{"prompt_token_ids": draw.integers(3, 2000, n).tolist()} for n in (1, 5, 17, 40, *[100] * 6)]
# Some end sooner than others, so that the rows of the later steps move up. The long ones have no room side by side once
# they are beyond a block: some are preempted, and computed again.
params = [SamplingParams(max_tokens=m, ignore_eos=True, seed=1) for m in (12, 3, 7, 1, *[60] * 6)]
found = llm.generate(prompts, params, use_tqdm=False)
plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
results = []
for prompt, request in zip(prompts, found):
    output = request.outputs[0]
    tokens = prompt["prompt_token_ids"] + list(output.token_ids)
    with torch.no_grad():
        logits = plain(torch.tensor([tokens[:-1]]), output_router_logits=True).router_logits
    top_k = output.routed_experts.shape[-1]
    expected = torch.stack([layer.topk(top_k, dim=-1).indices for layer in logits], dim=1).numpy()
    results.append([list(output.routed_experts.shape), list(expected.shape),
                    float((output.routed_experts == expected).mean())])
# This thread has made the steps, so it tells what a denormal number is worth in them.
print("RESULTS", json.dumps({"routes": results, "denormal": float((torch.full((1,), 1e-40) * 1.0).item())}))
"""


@pytest.fixture(scope="module")
def results():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(BUNDLED_MODEL)], capture_output=True, text=True, timeout=170, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULTS ")]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[0].removeprefix("RESULTS "))


@pytest.fixture
def routes(results):
    return results["routes"]


def test_there_is_a_row_for_each_token_that_was_computed(routes):
    assert [shape[0] for shape, _, _ in routes] == [1 + 11, 5 + 2, 17 + 6, 40, *[100 + 59] * 6]
    assert all(shape == expected for shape, expected, _ in routes)


def test_they_are_what_a_plain_forward_chooses_in_falling_order(routes):
    # Where two scores are equal to the last bits, the two libraries may differ.
    assert min(equal for _, _, equal in routes) > 0.99


def test_denormal_numbers_count_as_zero_in_its_steps(results):
    assert results["denormal"] == 0.0
