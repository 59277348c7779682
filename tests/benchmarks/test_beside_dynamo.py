"""How long virtual time takes beside Dynamo's replay, the same requests on the same machine, in turn.

What they emulate differs: Dynamo's mocker has a polynomial for a step's time, no energy, and counts no bytes; it prices
every step by itself, in Rust. So the times say what an answer costs, not which is right.
"""

import json
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from serving.bench.virtual_time import FLEET, MOST_SEQS, virtual_pace
from tests.benchmarks.installed import installed

pytestmark = pytest.mark.alone

DYNAMO = "ai-dynamo==1.4.2"
TURNS = 3
ENGINE = {
    "block_size": 16,
    "max_num_seqs": MOST_SEQS,
    "max_num_batched_tokens": 8192,
    "num_gpu_blocks": 16384,
    "enable_prefix_caching": False,
}


@pytest.fixture(scope="module")
def python_with_dynamo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(DYNAMO, tmp_path_factory.mktemp("dynamo")) / "python"


def replay_s(python: Path, folder: Path) -> float:
    """Seconds that the replay takes, by its own account: without the start of its interpreter."""
    report = folder / "report.json"
    options = {
        "input-tokens": FLEET["prompt_tokens"],
        "output-tokens": FLEET["output_tokens"],
        "request-count": FLEET["requests"],
        "request-rate": FLEET["rate_per_s"],
        "num-workers": FLEET["devices"],
        "router-mode": "round_robin",
        "replay-mode": "offline",
        "extra-engine-args": json.dumps(ENGINE),
        "report-json": report,
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    subprocess.run([python, "-m", "dynamo.replay", *words], check=True, capture_output=True, timeout=300)
    told: dict[str, Any] = json.loads(report.read_text())
    assert told["completed_requests"] == FLEET["requests"]
    return float(told["wall_time_ms"]) / 1e3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_virtual_time_beside_the_replay_of_dynamo(
    python_with_dynamo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, ours = [], []
    for _ in range(TURNS):
        theirs.append(replay_s(python_with_dynamo, tmp_path))
        ours.append(virtual_pace()["fleet"]["wall_s"])
    with capsys.disabled():
        print(f"\n{FLEET}: {DYNAMO} {median(theirs):.2f} s, foreserve {median(ours):.2f} s, ", end="")
        print(f"{median(theirs) / median(ours):.2f} times as fast (medians of {TURNS}: {theirs}, {ours})")
    assert min(*theirs, *ours) > 0
