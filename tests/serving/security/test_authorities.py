"""Which files of authorities are read, and whose clients they let in: handshakes in memory, without a connection."""

import ssl
from pathlib import Path

import pytest
import trustme

from serving.scenario.listen_options import ListenOptions
from serving.security.client_trust import Trust
from serving.security.tls import Tls


@pytest.fixture
def root(tmp_path: Path) -> trustme.CA:
    """An authority, and a server's certificate of it."""
    made = trustme.CA()
    issued = made.issue_cert("localhost")
    (tmp_path / "cert.pem").write_bytes(issued.cert_chain_pems[0].bytes())
    (tmp_path / "key.pem").write_bytes(issued.private_key_pem.bytes())
    (tmp_path / "ca.pem").write_bytes(made.cert_pem.bytes())
    return made


def asking(folder: Path, authority: str = "ca.pem") -> Tls:
    """TLS of a server that asks for certificates of an authority."""
    cert, key, ca = (str(folder / name) for name in ("cert.pem", "key.pem", authority))
    tls = Tls.of(ListenOptions(tls_cert=cert, tls_key=key, tls_client_ca=ca))
    assert tls is not None
    return tls


def client(folder: Path, authority: trustme.CA) -> Trust:
    (folder / "client.pem").write_bytes(authority.issue_cert("it@example.com").private_key_and_cert_chain_pem.bytes())
    return Trust(str(folder / "ca.pem"), str(folder / "client.pem"))


def lets_in(tls: Tls, trust: Trust) -> bool:
    """Tell whether a handshake with HTTP's side comes to its end."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        trust.context().wrap_bio(to_client, to_server, server_hostname="localhost"),
        tls.http_context().wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
    return not sides


def test_files_may_have_names_in_any_alphabet_between_their_certificates(tmp_path: Path, root: trustme.CA) -> None:
    for file in (tmp_path / "ca.pem", tmp_path / "cert.pem"):
        file.write_bytes("# Behörde für Zertifikate, 証明書\n".encode() + file.read_bytes())
    tls = asking(tmp_path)
    assert lets_in(tls, client(tmp_path, root)) and not lets_in(tls, client(tmp_path, trustme.CA()))


def test_an_authority_that_another_one_vouches_for_is_enough(tmp_path: Path, root: trustme.CA) -> None:
    between = root.create_child_ca()
    (tmp_path / "between.pem").write_bytes(between.cert_pem.bytes())
    tls = asking(tmp_path, "between.pem")
    assert lets_in(tls, client(tmp_path, between)) and not lets_in(tls, client(tmp_path, root))
