"""Certificates that expire while a server is up: its own, and a client's."""

import contextlib
import socket
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from serving.security.client_trust import Trust
from serving.security.tls import Tls
from tests.serving.security.test_tls import OK, SERVING, Pki, Up, hours

# Seconds that a certificate is good for: more, where a busy machine was too late for the first.
LIVES_S = (3, 9, 27)
TOO_LATE = "Nobody got in before the certificate's end."


def left_s(end: datetime) -> float:
    """The least that is left: a certificate ends with a whole second."""
    return (end - datetime.now(UTC)).total_seconds() - 1


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_whose_certificate_expires_does_not_get_in_with_the_session_of_before(pki: Pki, version: Any) -> None:
    with Up(Tls.of(pki.options(mutual=True))) as up:  # type: ignore[arg-type]
        sessions: dict[int, Any] = {}

        def say(context: ssl.SSLContext, port: int, words: bytes) -> tuple[bytes, bool]:
            with (
                socket.create_connection(("127.0.0.1", port), 20) as sock,
                context.wrap_socket(sock, server_hostname="localhost", session=sessions.get(port)) as wrapped,
            ):
                wrapped.sendall(words)
                answer = wrapped.recv(100)
                sessions[port] = wrapped.session
                return answer, bool(wrapped.session_reused)

        http = up.http_port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        http2 = up.grpc_port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"

        def got_in(context: ssl.SSLContext) -> bool:
            """Whether each of two ports was answered, and again with the session of before."""
            for option in (http, http2, http2, http):
                answer, reused = say(context, *option)
                if not answer:
                    return False
            return reused

        for life_s in LIVES_S:
            end = hours(life_s / 3600)
            context = pki.client("brief", not_before=hours(-1), not_after=end).context()
            context.set_alpn_protocols(["h2"])
            context.minimum_version = context.maximum_version = version
            sessions.clear()
            with contextlib.suppress(OSError):
                if got_in(context):
                    break
            assert left_s(end) < 0
        else:
            pytest.fail(TOO_LATE)
        time.sleep(max(0.0, left_s(end)) + 1.5)
        for option in (http, http2):
            with contextlib.suppress(OSError):
                assert say(context, *option)[0] == b""


def test_a_certificate_that_expires_while_serving_is_replaced_while_serving(pki: Pki) -> None:
    for life_s in LIVES_S:
        end = hours(life_s / 3600)
        pki.renew(not_before=hours(-1), not_after=end)
        with Up(Tls.of(pki.options())) as up:  # type: ignore[arg-type]
            trust = Trust(pki.ca_file)
            if up.http(trust) != OK or up.call(trust) != SERVING:
                assert left_s(end) < 0
                continue
            time.sleep(max(0.0, left_s(end)) + 1.5)
            assert "expired" in up.http(trust) and up.call(trust) == "UNAVAILABLE"
            pki.renew()
            assert up.http(trust) == OK and up.call(trust) == SERVING
            return
    pytest.fail(TOO_LATE)
