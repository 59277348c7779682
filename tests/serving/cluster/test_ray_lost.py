"""Without Ray nothing can go on: the server ends, soon, with a sentence and an exit code of its own."""

import os
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from serving.process.server_process import server
from tests.conftest import MODEL

pytestmark = pytest.mark.beside


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["raylet", pytest.param("gcs_server", marks=pytest.mark.slow)])
def test_a_server_that_loses_ray_ends_with_a_sentence(part: str, tmp_path: Path) -> None:
    log, last = tmp_path / "log", list[str]()
    with server("--speed", "0.5", quiet=True, log=log) as child:
        metrics = httpx.get(f"{child.http_url}/metrics").text.splitlines()
        asked = [
            line for line in metrics if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting{"))
        ]
        assert asked and all(line.endswith(" 0.0") for line in asked), "nobody has asked for anything yet"

        def stream() -> None:
            body = {"model": MODEL, "prompt": "Hello", "max_tokens": 4000, "stream": True, "ignore_eos": True}
            with httpx.stream("POST", f"{child.http_url}/v1/completions", json=body, timeout=60) as answer:
                last.extend(line for line in answer.iter_lines() if line)

        client = threading.Thread(target=stream)
        client.start()
        family = psutil.Process(child.process.pid).children(recursive=True)
        next(process for process in family if process.name() == part).kill()
        assert child.process.wait(timeout=40) == os.EX_TEMPFAIL
        client.join(timeout=10)
        assert not client.is_alive()
        assert any("error" in line for line in last[-2:])
    assert f"Ray's {part} (process" in log.read_text()
    assert "Start the server anew" in log.read_text()
