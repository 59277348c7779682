"""`foreserve serve` as a user meets it who asks for what cannot be: a sentence, and nothing is started."""

import socket
import subprocess
import sys
from asyncio import Future, new_event_loop
from pathlib import Path

import pytest

from serving.cli.announcements import RunningServer, check_folder, greeting
from serving.edge.preflight import free_port
from serving.scenario.scenario import Scenario, ScenarioError
from serving.usage_error import UsageError

FORESERVE = str(Path(sys.executable).parent / "foreserve")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FORESERVE, *arguments], capture_output=True, text=True, timeout=150)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--hardware", "elmoe3d-16gb"], ["elmoe3d-16gb", "elmoe3d-4gb", "elmoe3d-8gb"]),
        (["--system", "abacus"], ["abacus", "elmoe3d", "xpu"]),
        (["--model", "gpt-5"], ["gpt-5", "qwen3-30b-a3b"]),
        (["--speed", "0"], ["`--speed`", "above 0"]),
        (["--speed", "inf"], ["`--speed`", "finite and above 0"]),
        (["--devices", "0"], ["`--devices`", "at least 1"]),
        (["--token-model", "/no/such/folder"], ["`--token-model` (token_model)", "/no/such/folder"]),
        (["--step-log", "/no/such/folder/log"], ["--step-log", "/no/such/folder/log"]),
        (["nowhere.toml"], ["nowhere.toml"]),
    ],
)
def test_a_scenario_that_cannot_be_is_refused_in_a_sentence(options: list[str], said: list[str]) -> None:
    result = run("serve", "--http-port", "0", "--grpc-port", "0", *options)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert all(word in result.stderr for word in said), result.stderr


@pytest.mark.parametrize("option", ["--ready-file", "--discovery-file"])
def test_a_folder_is_no_file_to_write_addresses_to(option: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^{option} {tmp_path} cannot be written: it is a folder"):
        check_folder(tmp_path, option)


@pytest.mark.parametrize("option", ["--http-port", "--grpc-port"])
def test_an_occupied_port_is_named(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        other = "--grpc-port" if option == "--http-port" else "--http-port"
        result = run("serve", option, port, other, "0")
    assert result.returncode == 2
    assert port in result.stderr and option in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no such host"])
def test_a_host_that_is_not_this_machine_is_named_and_no_port_is_blamed(host: str) -> None:
    with pytest.raises(ScenarioError, match=f"^`host` is '{host}', .*--host") as refused:
        free_port(host, 0, "grpc_port")
    assert "port" not in str(refused.value)


def greeted(scenario: Scenario) -> str:
    """What whoever starts a server of this scenario reads once it is ready."""
    return greeting(RunningServer(scenario, 8000, 50051, 12.0, True, False, lost=Future(loop=new_event_loop())))


def test_an_address_of_ipv6_can_be_pasted() -> None:
    said = greeted(Scenario(host="::1"))
    assert "http://[::1]:8000/v1/chat/completions" in said and "call grpc://[::1]:50051 " in said


def test_lines_to_paste_ask_for_the_model_by_the_name_that_it_is_served_by() -> None:
    said = greeted(Scenario(vllm_options=("--served-model-name", "mine")))
    assert said.count('{"model": "mine", ') == 2 and "qwen3-30b-a3b" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--residency", "psychic"], ["`--residency`", "analytic or trace"]),
        (["--draft", "tarot"], ["tarot", "elastic"]),
        (["--acceptance", "measured", "--draft", "none"], ["`--acceptance`", "`--draft`"]),
        (["--system", "pim", "--residency", "trace"], ["Only systems that cache experts"]),
        (["--draft", "eagle", "--residency", "trace", "--acceptance", "executed"], ["elastic, random, quant"]),
        (["--system", "hb_xpu", "--draft", "elastic"], ["hb_xpu", "eagle"]),
    ],
)
def test_what_cannot_be_emulated_together_is_refused_in_a_sentence(options: list[str], said: list[str]) -> None:
    result = run("serve", "--http-port", "0", "--grpc-port", "0", *options)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert all(word in result.stderr for word in said), result.stderr
