"""The command as a user runs it: exit codes, what goes to stdout and to stderr, Ctrl-C."""

import asyncio
import json
import signal
import sys

import pytest

from tests.serving.load.openai_stand_in import StandIn

COMMAND = """
import sys
from serving.cli.main import main
sys.argv[1:1] = ["load"]
main()
"""


async def start(*argv: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-c", COMMAND, *argv, stdout=pipe, stderr=pipe)


def command(*argv: str, server: StandIn | None = None) -> tuple[int, str, str]:
    async def run() -> tuple[int, str, str]:
        url = ["--url", await server.start()] if server else []
        process = await start(*url, *argv)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    return asyncio.run(run())


def test_json_goes_to_stdout_alone():
    code, out, err = command("--json", "-n", "3", "--rate", "inf", "--output-len", "4", server=StandIn())
    assert (code, err) == (0, "")
    assert json.loads(out)["completed"] == 3


def test_a_table_for_people():
    code, out, _ = command("-n", "3", "--rate", "inf", "--slo-ttft-ms", "9000", server=StandIn())
    assert code == 0
    for words in ("p99", "TTFT (ms)", "TPOT (ms)", "ITL (ms)", "E2E (ms)", "3 of 3 requests", "Goodput: ", "TTFT 9000"):
        assert words in out


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--rate", "-1"], 2, "foreserve load: --rate must be a number above 0"),
        (["--rate", "1e-300"], 2, "--rate must be a number above 0, from 0.000001 to 1000000000"),
        (["--url", "http://127.0.0.1:9"], 1, "foreserve load: Nothing answers at http://127.0.0.1:9"),
        (["--url", "http://☃.x"], 1, "foreserve load: Nothing answers at http://☃.x"),
        (["--url", "http://127.0.0.1:9", "--model", "m", "-n", "2", "--rate", "inf"], 1, "Nothing answers at"),
    ],
)
def test_what_cannot_be_is_one_sentence(argv, code, words):
    ended, out, err = command(*argv)
    assert (ended, out) == (code, "")
    assert words in err and err.count("\n") == 1


def test_a_run_without_any_answer_fails():
    code, out, err = command("--model", "broken", "-n", "2", "--rate", "inf", server=StandIn())
    assert code == 1
    assert "2 failed: 500" in out
    assert "No request completed." in err


@pytest.mark.parametrize(("sent", "ended"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_a_signal_cancels_and_still_reports(sent, ended):
    async def run() -> tuple[int, dict, str, StandIn]:
        server = StandIn(0.05)
        process = await start(
            "--url", await server.start(), "--json", "--rate", "20", "-n", "9999", "--output-len", "20"
        )
        while len(server.seen) < 5:
            await asyncio.sleep(0.05)
        process.send_signal(sent)
        out, err = await asyncio.wait_for(process.communicate(), 20)
        await asyncio.sleep(0.2)
        return process.returncode, json.loads(out), err.decode(), server

    code, report, err, server = asyncio.run(run())
    assert (code, err) == (ended, "")
    assert report["broken"] is None
    assert report["interrupted"] and report["cancelled"] > 0
    assert server.hung_up > 0


def test_ctrl_c_ends_a_run_that_waits_for_a_mute_server():
    async def run() -> tuple[int, bytes]:
        called = asyncio.Event()

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            called.set()
            await reader.read(-1)
            writer.close()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        process = await start("--url", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await called.wait()
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 20)
        server.close()
        return process.returncode, err

    assert asyncio.run(run()) == (130, b"")
