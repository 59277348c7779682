"""TLS over HTTP and gRPC: who gets in, what is shown, and what changing files does to it."""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import trustme
import uvicorn
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from serving.api.grpc_server import bind
from serving.scenario.listen_options import ListenOptions
from serving.scenario.scenario_error import ScenarioError
from serving.security.client_trust import OWN_ROOTS, Trust
from serving.security.tls import MOST_UNKNOWN, Tls
from serving.usage_error import UsageError

Code = grpc.StatusCode


class Pki:
    """An authority, and the files of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.ca_file = self.write("ca.pem", self.ca.cert_pem.bytes())
        self.renew()

    def write(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def renew(self, name: str = "localhost", **validity: datetime) -> None:
        """A new certificate and key for the server."""
        issued = self.ca.issue_cert(name, "127.0.0.1", **validity)  # type: ignore[arg-type]
        self.write("key.pem", issued.private_key_pem.bytes())
        self.write("cert.pem", b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    def options(self, mutual: bool = False) -> ListenOptions:
        cert, key = (str(self.folder / name) for name in ("cert.pem", "key.pem"))
        return ListenOptions(tls_cert=cert, tls_key=key, tls_client_ca=self.ca_file if mutual else "")

    def client(self, name: str, authority: trustme.CA | None = None, **validity: datetime) -> Trust:
        """A client with a certificate of its own."""
        issued = (authority or self.ca).issue_cert(f"{name}@example.com", **validity)  # type: ignore[arg-type]
        return Trust(self.ca_file, self.write(f"{name}.pem", issued.private_key_and_cert_chain_pem.bytes()))


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


class Up:
    """What is up: uvicorn and gRPC as the server has them, with something simple behind."""

    def __init__(self, tls: Tls, most_unknown: int = MOST_UNKNOWN) -> None:
        self.tls = tls
        self.most_unknown = most_unknown
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.http_port = self.sock.getsockname()[1]
        self.grpc_port = 0
        self._ready, self._over = threading.Event(), asyncio.Event()

    def run(self) -> None:
        uvloop.run(self._main())

    def _context(self, *_: Any) -> ssl.SSLContext:
        return self.tls.http_context(self.most_unknown)

    async def _main(self) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"x-scheme", scope["scheme"].encode())]}
            )
            for _ in range(2 if scope["path"] == "/slow" else 0):
                await send({"type": "http.response.body", "body": b".", "more_body": True})
                await asyncio.sleep(0.6)
            await send({"type": "http.response.body", "body": b"."})

        self._loop = asyncio.get_running_loop()
        config = uvicorn.Config(app, lifespan="off", log_config=None, ssl_context_factory=self._context)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        calls = grpc.aio.server()
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, calls)
        await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        self.grpc_port = bind(calls, "127.0.0.1", 0, self.tls)
        await calls.start()
        serving = asyncio.create_task(server.serve(sockets=[self.sock]))
        while not server.started:
            await asyncio.sleep(0.01)
        self._ready.set()
        await self._over.wait()
        server.should_exit = True
        await calls.stop(0)
        await serving

    def __enter__(self) -> "Up":
        self._thread = threading.Thread(target=self.run)
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    def http(self, trust: Trust, path: str = "/") -> str:
        """What a new HTTP connection comes to."""
        try:
            answer = httpx.get(f"https://localhost:{self.http_port}{path}", verify=trust.context(), timeout=20)
        except httpx.HTTPError as error:
            return type(error).__name__ + ": " + str(error)
        return f"{answer.status_code} {answer.headers['x-scheme']}"

    def call(self, trust: Trust) -> str:
        """What a new gRPC connection comes to."""
        with grpc.secure_channel(f"localhost:{self.grpc_port}", trust.grpc_credentials()) as channel:
            return self.check(channel)

    def check(self, channel: grpc.Channel) -> str:
        stub = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
        try:
            return str(stub.Check(health_pb2.HealthCheckRequest(), timeout=20).status)
        except grpc.RpcError as error:
            return str(error.code().name)  # type: ignore[attr-defined]

    def serial(self, port: int, **more: Any) -> int:
        """The serial number of what is shown to a new connection."""
        from cryptography import x509

        context = ssl._create_unverified_context(**more)
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", port), 20) as sock, context.wrap_socket(sock) as wrapped:
            return x509.load_der_x509_certificate(wrapped.getpeercert(True) or b"").serial_number


OK, SERVING = "200 https", "1"


def test_whoever_trusts_the_authority_gets_in_and_nobody_in_the_clear(pki: Pki) -> None:
    with Up(Tls.of(pki.options())) as up:  # type: ignore[arg-type]
        assert up.http(Trust(pki.ca_file)) == OK and up.call(Trust(pki.ca_file)) == SERVING
        assert "CERTIFICATE_VERIFY_FAILED" in up.http(Trust()) and up.call(Trust()) == "UNAVAILABLE"
        # The certificate itself is as good as its authority.
        assert up.http(Trust(str(pki.folder / "cert.pem"))) == OK
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{up.http_port}/")
        with grpc.insecure_channel(f"localhost:{up.grpc_port}") as channel:
            assert up.check(channel) == "UNAVAILABLE"


@pytest.mark.parametrize("place", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_without_a_file_whom_the_system_trusts_is_trusted_over_grpc_too(
    pki: Pki, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = pki.folder / "trusted"
    folder.mkdir()
    shutil.copy(pki.ca_file, folder / "0a1b2c3d.0")
    monkeypatch.delenv(OWN_ROOTS, raising=False)
    for each in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(each, str(pki.folder / "nowhere"))
    with Up(Tls.of(pki.options())) as up:  # type: ignore[arg-type]
        assert up.call(Trust()) == "UNAVAILABLE"
        monkeypatch.setenv(place, pki.ca_file if place == "SSL_CERT_FILE" else str(folder))
        assert up.call(Trust()) == SERVING


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_older_than_tls_12(pki: Pki) -> None:
    with Up(Tls.of(pki.options())) as up:  # type: ignore[arg-type]
        for port in (up.http_port, up.grpc_port):
            for version, allowed in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
                context = ssl._create_unverified_context()
                context.set_ciphers("ALL:@SECLEVEL=0")
                context.set_alpn_protocols(["h2"])
                context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, version
                with socket.create_connection(("127.0.0.1", port), 20) as sock:
                    expected = contextlib.nullcontext() if allowed else pytest.raises(OSError)
                    with expected, context.wrap_socket(sock) as wrapped:
                        assert wrapped.version() == "TLSv1.2"


def test_connections_that_say_nothing_have_an_end(pki: Pki) -> None:
    trust = Trust(pki.ca_file)
    with Up(Tls.of(pki.options()), most_unknown=8) as up:  # type: ignore[arg-type]
        assert [up.http(trust) for _ in range(20)] == [OK] * 20
        silent = [socket.create_connection(("127.0.0.1", up.http_port), 20) for _ in range(8)]
        time.sleep(0.2)
        assert up.http(trust) != OK
        for sock in silent:
            sock.close()
        deadline = time.monotonic() + 20
        while up.http(trust) != OK:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def hours(count: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=count)


def test_of_clients_only_those_of_the_authority_get_in_and_only_in_time(pki: Pki) -> None:
    with Up(Tls.of(pki.options(mutual=True))) as up:  # type: ignore[arg-type]
        good = pki.client("good")
        assert up.http(good) == OK and up.call(good) == SERVING
        for refused in (
            Trust(pki.ca_file),
            pki.client("other", trustme.CA()),
            pki.client("expired", not_before=hours(-48), not_after=hours(-24)),
            pki.client("early", not_before=hours(24), not_after=hours(48)),
        ):
            assert up.http(refused) != OK and up.call(refused) == "UNAVAILABLE"
        assert up.http(good) == OK and up.call(good) == SERVING


def touch(pki: Pki, change: Callable[[], object]) -> None:
    """A change of the files that is not in the same tick of the clock as the one before."""
    time.sleep(0.02)
    change()


def test_new_files_are_for_new_connections_and_old_ones_go_on(pki: Pki) -> None:
    with Up(Tls.of(pki.options())) as up, ThreadPoolExecutor(4) as pool:  # type: ignore[arg-type]
        trust = Trust(pki.ca_file)
        before = {up.serial(port) for port in (up.http_port, up.grpc_port)}
        assert len(before) == 1
        slow = [pool.submit(up.http, trust, "/slow") for _ in range(3)]
        with (
            httpx.Client(verify=trust.context(), timeout=20) as client,
            grpc.secure_channel(f"localhost:{up.grpc_port}", trust.grpc_credentials()) as channel,
        ):
            assert client.get(f"https://localhost:{up.http_port}").status_code == 200 and up.check(channel) == SERVING
            time.sleep(0.3)
            touch(pki, pki.renew)
            after = {up.serial(port) for port in (up.http_port, up.grpc_port)}
            assert len(after) == 1 and after != before
            assert client.get(f"https://localhost:{up.http_port}").status_code == 200 and up.check(channel) == SERVING
        assert [each.result() for each in slow] == [OK] * 3
        assert up.http(trust) == OK and up.call(trust) == SERVING


def test_a_certificate_that_has_expired_already_is_told_of(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    pki.renew(not_before=hours(-48), not_after=hours(-24))
    Tls.of(pki.options())
    assert "cert.pem has expired" in caplog.text
    caplog.clear()
    pki.renew()
    Tls.of(pki.options())
    assert not caplog.text


def test_whom_clients_are_from_can_change_too(pki: Pki) -> None:
    with Up(Tls.of(pki.options(mutual=True))) as up:  # type: ignore[arg-type]
        other = trustme.CA()
        ours, theirs = pki.client("ours"), pki.client("theirs", other)
        assert (up.http(ours), up.call(ours)) == (OK, SERVING) and up.http(theirs) != OK
        os.rename(pki.ca_file, pki.ca_file + ".server")
        touch(pki, lambda: pki.write("ca.pem", other.cert_pem.bytes()))
        ours, theirs = (Trust(pki.ca_file + ".server", each.client_cert) for each in (ours, theirs))
        assert (up.http(theirs), up.call(theirs)) == (OK, SERVING)
        assert up.http(ours) != OK and up.call(ours) == "UNAVAILABLE"


def changes(pki: Pki) -> Iterator[Callable[[], object]]:
    """What goes wrong with files while they are replaced."""
    cert, key = ((pki.folder / name).read_bytes() for name in ("cert.pem", "key.pem"))
    other = trustme.CA().issue_cert("localhost").private_key_pem.bytes()
    yield lambda: pki.write("cert.pem", cert[: len(cert) // 3])
    yield lambda: pki.write("cert.pem", b"")
    yield lambda: (pki.folder / "cert.pem").unlink()
    # Nobody will ever write to it.
    yield lambda: os.mkfifo(pki.folder / "cert.pem")
    yield lambda: (pki.folder / "cert.pem").unlink()
    yield lambda: (pki.write("cert.pem", cert), pki.write("key.pem", other))
    yield lambda: pki.write("key.pem", key[:50])
    yield lambda: pki.write("key.pem", b"\xff" * 1000)
    yield lambda: (pki.write("key.pem", key), pki.write("ca.pem", b"nothing"))


def test_files_that_are_not_in_order_change_nothing_and_are_told_once(
    pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    trust = pki.client("client")
    trust = Trust(pki.write("authority.pem", pki.ca.cert_pem.bytes()), trust.client_cert)
    with Up(Tls.of(pki.options(mutual=True))) as up, caplog.at_level(logging.WARNING, "foreserve"):  # type: ignore[arg-type]
        for change in changes(pki):
            touch(pki, change)
            assert up.http(trust) == OK and up.call(trust) == SERVING
        assert [record.getMessage() for record in caplog.records if "goes on" in record.message] == [
            f"{pki.folder / 'cert.pem'} has no certificate in PEM: TLS goes on with what it was before, until the "
            "files are in order."
        ]
        pki.write("ca.pem", pki.ca.cert_pem.bytes())
        touch(pki, pki.renew)
        assert up.http(trust) == OK and up.call(trust) == SERVING
        assert [record for record in caplog.records if "in order again" in record.message]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"cert.pem": None}, ["`tls_cert`", "cannot be read", "No such file"]),
        ({"key.pem": None}, ["`tls_key`", "cannot be read", "No such file"]),
        ({"ca.pem": None}, ["`tls_client_ca`", "cannot be read"]),
        ({"cert.pem": b""}, ["`tls_cert`", "no certificate"]),
        ({"cert.pem": b"\xff\x00"}, ["`tls_cert`", "no certificate"]),
        ({"ca.pem": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, ["`tls_client_ca`"]),
        ({"key.pem": b"-----BEGIN PRIVATE KEY-----\n"}, ["`tls_key`", "no private key"]),
    ],
)
def test_files_that_are_wrong_at_first_are_told(pki: Pki, files: dict[str, bytes | None], said: list[str]) -> None:
    for name, content in files.items():
        (pki.folder / name).unlink() if content is None else pki.write(name, content)
    with pytest.raises(ScenarioError) as caught:
        Tls.of(pki.options(mutual=True))
    assert all(word in str(caught.value) for word in said) and str(caught.value).endswith(".")


def test_a_key_of_another_certificate_or_with_a_password_is_told(pki: Pki) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    key = pem.load_pem_private_key((pki.folder / "key.pem").read_bytes(), None)
    locked = pem.BestAvailableEncryption(b"secret")
    pki.write("key.pem", key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, locked))
    with pytest.raises(ScenarioError, match="without a password"):
        Tls.of(pki.options())
    pki.write("key.pem", pki.ca.issue_cert("x").private_key_pem.bytes())
    with pytest.raises(ScenarioError, match=r"`tls_key` is .* not the key of the certificate"):
        Tls.of(pki.options())


@pytest.mark.parametrize("given", ["tls_cert", "tls_key", "tls_client_ca"])
def test_one_file_needs_the_others(given: str) -> None:
    with pytest.raises(ScenarioError, match=f"`{given}` is set, and `tls_(key|cert)` is not"):
        ListenOptions(**{given: "x"}).check_listening()  # type: ignore[arg-type]
    assert Tls.of(ListenOptions()) is None


def test_a_client_names_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        Trust("nowhere").context()
    (tmp_path / "x").write_text("x")
    with pytest.raises(UsageError, match="x"):
        Trust(client_cert=str(tmp_path / "x")).grpc_credentials()
