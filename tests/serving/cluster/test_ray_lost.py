"""Without Ray nothing can go on: the server ends, soon, with a sentence and an exit code of its own."""

import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from serving.cluster.session.ray_head import NAME
from serving.process.server_process import ServerProcess, server
from tests.conftest import MODEL

pytestmark = pytest.mark.beside

STREAMS = 8


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["raylet", "gcs_server", NAME])
def test_a_server_that_loses_ray_ends_with_a_sentence(part: str, tmp_path: Path) -> None:
    with server("--speed", "0.5", quiet=True, log=tmp_path / "log") as child:
        metrics = httpx.get(f"{child.http_url}/metrics").text.splitlines()
        asked = [
            line for line in metrics if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting{"))
        ]
        assert asked and all(line.endswith(" 0.0") for line in asked), "nobody has asked for anything yet"
        end_without(part, child, tmp_path / "log")


def end_without(part: str, child: ServerProcess, log: Path) -> None:
    """Kill a part of Ray's beside streams, which get an error, those that come later too; then the server ends."""
    lasts, begun = list[list[str]](), threading.Event()

    def stream(after_s: float) -> None:
        time.sleep(after_s)
        body = {"model": MODEL, "prompt": "Hello", "max_tokens": 4000, "stream": True, "ignore_eos": True}
        url = f"{child.http_url}/v1/completions"
        with suppress(httpx.ConnectError), httpx.stream("POST", url, json=body, timeout=60) as answer:
            lasts.append(lines := [])
            for line in filter(None, answer.iter_lines()):
                lines.append(line)
                begun.set()

    clients = [threading.Thread(target=stream, args=(0.2 * number,)) for number in range(STREAMS)]
    for client in clients:
        client.start()
    assert begun.wait(timeout=60)
    family = psutil.Process(child.process.pid).children(recursive=True)
    next(process for process in family if process.name() == part).kill()
    assert child.process.wait(timeout=40) == os.EX_TEMPFAIL
    for client in clients:
        client.join(timeout=60)
        assert not client.is_alive()
    assert lasts and all(any("error" in line for line in last[-2:]) for last in lasts)
    # Ray's processes end with its head, in no order.
    lost = "(raylet|gcs_server)" if part == NAME else part
    assert re.search(rf"Ray's {lost} \(process", log.read_text())
    assert "Start the server anew" in log.read_text()
