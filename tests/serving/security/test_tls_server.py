"""A whole server with mutual TLS, a key from a file and an admin, beyond loopback; and each of our clients."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from serving.process.server_process import ServerProcess, server
from tests.serving.security.test_tls import Pki

MODEL = "qwen3-30b-a3b"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "serving.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_clients_of_ours_speak_tls_with_a_server_of_ours(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    files = pki.options(mutual=True)
    keys = pki.write("keys", b"# clients\nsesame\n")
    discovery = tmp_path / "targets.json"
    tls = ("--tls-cert", files.tls_cert, "--tls-key", files.tls_key, "--tls-client-ca", files.tls_client_ca)
    options = ("--host", "0.0.0.0", "--speed", "4", "--token-model", "foreserve-tiny", "--api-key-file", keys, *tls)
    log, environment = tmp_path / "log", {"FORESERVE_ADMIN_KEY": "root"}
    more = ("--discovery-file", str(discovery))
    with server(*options, *more, quiet=True, log=log, environment=environment) as child:
        assert json.loads(discovery.read_text())[0]["labels"]["__scheme__"] == "https"
        mine = pki.client("me")
        trust = ("--ca-file", mine.ca_file, "--client-cert", mine.client_cert)
        key, admin = ("--api-key", "sesame"), ("--api-key", "root")
        assert child.http_url.startswith("https://") and child.grpc_url.startswith("grpcs://")
        told = run("top", child.http_url, "--once", "--interval", "0.1", *trust, *key)
        assert told.returncode == 0 and MODEL in told.stdout, told.stderr
        for url in (child.http_url, child.grpc_url):
            metrics = ("--metrics-url", f"{child.http_url}/metrics", "-n", "4", "--rate", "inf", "--output-len", "8")
            told = run("load", "--url", url, *metrics, *trust, *key, "--json")
            assert told.returncode == 0, told.stderr
            assert json.loads(told.stdout)["completed"] == 4
        call = ("call", child.grpc_url, *trust)
        assert MODEL in run(*call, "foreserve.v1.OpenAI/ListModels", *key).stdout
        assert "serving" in run(*call, "foreserve.v1.Admin/ListDevices", *admin).stdout
        assert "PERMISSION_DENIED" in run(*call, "foreserve.v1.Admin/ListDevices", *key).stderr
        assert "UNAUTHENTICATED" in run(*call, "foreserve.v1.OpenAI/ListModels", "--api-key", "open").stderr
        with httpx.Client(base_url=child.http_url, verify=mine.context()) as client:
            for header, status in (("sesame", 403), ("root", 200), ("open", 401)):
                answer = client.get("/foreserve/v1/devices", headers={"authorization": f"Bearer {header}"})
                assert answer.status_code == status
        with pytest.raises(httpx.HTTPError):
            httpx.get(child.http_url.replace("https", "http") + "/health")
        check_expiry(pki, child)
    assert "Traceback" not in log.read_text()


def check_expiry(pki: Pki, child: ServerProcess) -> None:
    """A stream during which its client's certificate expires is whole; who comes with it then is not let in."""
    expires = datetime.now(UTC) + timedelta(seconds=3)
    brief = pki.client("brief", not_after=expires)
    body = {"model": MODEL, "prompt": "Once", "max_tokens": 3000, "stream": True, "ignore_eos": True}
    ask = {"json": body, "headers": {"authorization": "Bearer sesame"}, "timeout": 60}
    client = httpx.Client(base_url=child.http_url, verify=brief.context())
    with client, client.stream("POST", "/v1/completions", **ask) as answer:  # type: ignore[arg-type]
        lines = [line for line in answer.iter_lines() if line]
    assert datetime.now(UTC) > expires
    assert lines[-1] == "data: [DONE]" and '"finish_reason":"length"' in "".join(lines[-3:])
    with httpx.Client(base_url=child.http_url, verify=brief.context()) as client, pytest.raises(httpx.HTTPError):
        client.get("/health")
