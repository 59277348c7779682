"""`foreserve systems`: is all hardware there, with what runs on it, and only models that fit?"""

import json

import pytest

from device_model.specs.hardware_file import FOLDER
from device_model.specs.spec_file import names_in
from serving.cli.main import make_parser

DOCUMENTS = ("Cassandra", "ELMoE-3D", "Estimate", "Fitted by", "M2R2", "Measured", "NVIDIA ", "PCIe ", "Stratum")
"""How the sources begin that figures of shipped hardware are from."""


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    args = make_parser().parse_args(["systems", *options])
    assert args.run(args) == 0
    return capsys.readouterr().out


def test_all_hardware_is_listed_with_its_system_and_the_models_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(printed(capsys, "--json"))
    entries = {entry["hardware"]: entry for entry in told["hardware"]}
    assert list(entries) == names_in(FOLDER)
    assert entries["stratum-l"]["system"] == "stratum" and entries["stratum-l"]["tiers"] == ["mono3d", "interposer"]
    assert entries["elmoe3d-8gb"]["system"] == "elmoe3d" and "pim" in entries["elmoe3d-8gb"]["others"]
    assert "mixtral-8x7b" in entries["stratum-l"]["models"] and "mixtral-8x7b" not in entries["stratum-s"]["models"]
    assert "NVIDIA H100 SXM5 data sheet" in entries["4xh100"]["sources"] and "Estimate" in entries["a6000"]["sources"]
    errors = {error["system"]: error for error in told["errors"]}
    assert set(errors) == {"elmoe3d", "stratum"}
    assert errors["stratum"]["fitted_figures"] == 12 and errors["stratum"]["unfitted_figures"] == 14
    assert 0 < errors["stratum"]["fitted_percent"] < 10 and 0 < errors["elmoe3d"]["fitted_percent"] < 10


def test_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys)
    assert "models that fit" in told and "figures from" in told and "stratum-s-512-flat" in told
    (line,) = [line for line in told.splitlines() if line.startswith("stratum-xl") and "mono3d" in line]
    assert "(12 fitted)" in line and "llama-4-scout" in line


def test_what_figures_are_from_are_documents_or_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    for entry in json.loads(printed(capsys, "--json"))["hardware"]:
        assert [source for source in entry["sources"] if not source.startswith(DOCUMENTS)] == [], entry["hardware"]
