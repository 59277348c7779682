"""Do loads that two real H100s served come out alike on the emulated one?"""

import csv
from pathlib import Path
from statistics import mean

import pytest

import device_model.validation.measured as measured
from device_model.specs.spec_file import SPECS
from serving.scenario.scenario import Scenario
from serving.simulation.play import play
from serving.workload import load_workload

MEASURED = Path(measured.__file__).parent


@pytest.fixture
def bf16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Qwen3-30B-A3B in the bits that were measured, among the specs of one's own; its name."""
    text = (SPECS / "models" / "qwen3-30b-a3b.toml").read_text(encoding="utf-8")
    for key, bits in (("static_weight_bits", 8.5), ("expert_weight_bits", 8.5), ("kv_bits", 8)):
        assert f"\n{key} = {bits}\n" in text
        text = text.replace(f"\n{key} = {bits}\n", f"\n{key} = 16\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "qwen3-30b-a3b-bf16.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("FORESERVE_SPECS", str(tmp_path))
    return "qwen3-30b-a3b-bf16"


@pytest.mark.parametrize(
    ("load", "tpot_off", "ttft_off"),
    [
        ("h100/load-2", 0.05, -0.16),
        ("h100/load-8", 0.05, -0.19),
        ("h100/load-20", 0.15, -0.06),
        ("h100-again/load-2", 0.08, -0.28),
        ("h100-again/load-8", 0.08, -0.29),
        ("h100-again/load-20", 0.19, -0.27),
    ],
)
def test_a_load_takes_as_long_as_it_took(
    tmp_path: Path, bf16: str, load: str, tpot_off: float, ttft_off: float
) -> None:
    """Times between tokens agree; first tokens come sooner, as the host takes some 7 ms to take a request in, but where
    prompts wait for each other: there as late."""
    table = MEASURED / f"{load}.csv"
    path = tmp_path / "load.toml"
    path.write_text(f'arrivals = {{ kind = "trace" }}\n[trace]\nfile = "{table}"\nformat = "csv"\n', encoding="utf-8")
    scenario = Scenario(hardware="h100", model=bf16, mode="fixed-ar", max_num_seqs=256, prefix_caching=False)
    outcomes, _ = play(load_workload(path, requests=1000), scenario)
    with table.open(encoding="utf-8") as lines:
        seen = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]
    assert len(outcomes) == len(seen)
    tpot_s = mean((row["last_s"] - row["first_s"]) / (row["output_tokens"] - 1) for row in seen)
    ttft_s = mean(row["first_s"] - row["arrival_s"] for row in seen)
    assert abs(mean(one.tpot_s for one in outcomes) / tpot_s - 1) < tpot_off
    assert ttft_off < mean(one.ttft_s for one in outcomes) / ttft_s - 1 < 0.02
