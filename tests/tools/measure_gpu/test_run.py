"""Does the tool measure, on the build of vLLM that is here and with a small model, all that it measures on a GPU?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from device_model.validation.measured.step_table import read_step_table

SMALL = {
    "vocab_size": 2048,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "moe_intermediate_size": 32,
    "max_position_embeddings": 4096,
}
# One thread, bound to no core: beside other tests.
HERE = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_measures_steps_and_loads(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("batch,context,new_tokens\n4,60,1\n1,0,128\n", encoding="utf-8")
    load = "arrival_s,prompt_tokens,output_tokens\n0,20,4\n0.1,30,1\n"
    (tmp_path / "load.csv").write_text(load, encoding="utf-8")
    command = [sys.executable, "-m", "tools.measure_gpu", "--popular", tmp_path / "steps.csv", "--eager"]
    command += ["--load", tmp_path / "load.csv", "--out", tmp_path / "out", "--config", json.dumps(SMALL)]
    run = subprocess.run(command, env={**os.environ, **HERE}, capture_output=True, text=True, timeout=560)
    assert not run.returncode, run.stderr[-3000:]
    counted = run.stderr.split("a batch of 16 chooses, of 128: ")[1].split()[0].rstrip(";")
    assert float(counted) == pytest.approx(47.3, abs=4)  # of 8 layers' draws
    steps = read_step_table(tmp_path / "out" / "popular.csv")
    assert [one.batch for one in steps] == [4, 1] and all(one.seconds > 0 for one in steps)
    assert steps[0].passes[0].context == pytest.approx(60, abs=4)
    rows = [line.split(",") for line in (tmp_path / "out" / "load.csv").read_text(encoding="utf-8").splitlines()[1:]]
    (_, _, _, *first), (_, _, _, *second) = [[float(field) for field in row] for row in rows]
    assert 0 < first[0] < first[1] and 0.1 < second[0] == second[1]
