"""TLS for HTTP and gRPC: one set of files for both, read again when they change, for connections from then on.

Whatever is wrong with new files, the old ones stay in use, and the log says so once. Nothing polls: each handshake
looks at the files' times, which takes some ten microseconds.
"""

import logging
import os
import ssl
import stat
import threading
import time
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc

from device_model.specs.file_state import FileState
from serving.scenario.listen_options import ListenOptions
from serving.scenario.scenario_error import ScenarioError

Stamps = tuple[tuple[int, ...] | None, ...]

MOST_UNKNOWN = 4096
HANDSHAKE_S = 60.0  # what asyncio and uvloop allow one to take

log = logging.getLogger("foreserve")


class Unusable(Exception):
    """A file that can't be used: the key that names it, and what is wrong with it."""

    def __init__(self, option: str, what: str) -> None:
        super().__init__(what)
        self.option = option


@dataclass(frozen=True, slots=True)
class Files:
    """The paths of our chain, its key, and (or "") the authorities of clients' certificates, all PEM."""

    tls_cert: str
    tls_key: str
    tls_client_ca: str

    def stamps(self) -> Stamps:
        """Return stamps that change with the files; None for a missing one."""
        return tuple(map(FileState.of, (self.tls_cert, self.tls_key, self.tls_client_ca)))

    def read(self, option: str) -> bytes:
        """Return the bytes of a file. Raise `Unusable`."""
        try:
            with open(getattr(self, option), "rb", opener=_open_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise Unusable(option, "is no file")
                return file.read()
        except OSError as error:
            raise Unusable(option, f"cannot be read: {error.strerror}") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would keep every handshake waiting."""
    return os.open(path, flags | os.O_NONBLOCK)


@dataclass(frozen=True, slots=True)
class Identity:
    """The loaded content of the files: a context for HTTP, bytes for gRPC."""

    context: ssl.SSLContext
    grpc: Any

    @staticmethod
    def of(files: Files) -> "Identity":
        """Load the files. Raise `Unusable`."""
        cert, key = files.read("tls_cert"), files.read("tls_key")
        ca = files.read("tls_client_ca") if files.tls_client_ca else None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslobject_class = ServerSide
        _check_certificates(cert, "tls_cert")
        _load_chain(context, files)
        if ca is not None:
            _check_certificates(ca, "tls_client_ca")
            context.load_verify_locations(cadata=_text_of(ca))
            # As for gRPC: an authority need not vouch for itself.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_mode = ssl.CERT_REQUIRED
        return Identity(context, grpc.ssl_server_certificate_configuration([(key, cert)], ca))


class ServerSide(ssl.SSLObject):
    """A server's side of a connection: a client whose certificate has expired doesn't get in by resuming a session from
    when it hadn't, which OpenSSL lets it."""

    def do_handshake(self) -> None:
        """As in `ssl`; asyncio and uvloop call it until it is done."""
        super().do_handshake()
        self.greeted: bool = True
        shown = self.getpeercert()
        if shown and ssl.cert_time_to_seconds(str(shown["notAfter"])) < time.time():
            raise ssl.SSLCertVerificationError("the client's certificate has expired")


class Tls:
    """The present identity of the servers, and what they ask of clients."""

    def __init__(self, files: Files) -> None:
        """Load the files. Raise `ScenarioError`."""
        self._files = files
        self._seen = files.stamps()
        self._failing = False
        # gRPC asks from threads of its own.
        self._lock = threading.Lock()
        try:
            self._identity = Identity.of(files)
            warn_of_expiry(files)
        except Unusable as error:
            name = getattr(files, error.option)
            raise ScenarioError(f"`{error.option}` is {name!r}, which {error}.", error.option) from error

    @staticmethod
    def of(options: ListenOptions) -> "Tls | None":
        """Return the TLS of a scenario, if it has any. Raise `ScenarioError`."""
        files = Files(options.tls_cert, options.tls_key, options.tls_client_ca)
        return Tls(files) if files.tls_cert else None

    def identity(self) -> Identity:
        """By the files as they are, or as they last were in order. Never raises."""
        with self._lock:
            if (stamps := self._files.stamps()) != self._seen:
                self._read_again(stamps)
            return self._identity

    def http_context(self, most_unknown: int = MOST_UNKNOWN) -> ssl.SSLContext:
        """For a server that asks for a context once; so many connections may be there without a handshake."""
        context = CurrentContext(ssl.PROTOCOL_TLS_SERVER)
        context.current = lambda: self.identity().context
        context.most_unknown, context.unknown = most_unknown, []
        return context

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """For a gRPC server, which asks at each handshake."""
        first = self.identity()
        shown = [first]
        fetch = partial(self._news, shown)
        return grpc.dynamic_ssl_server_credentials(first.grpc, fetch, bool(self._files.tls_client_ca))

    def _news(self, shown: list[Identity]) -> Any:
        """Return what gRPC is to show from now on; None if it does already. What it can't use, it leaves, and goes on.

        Where clients have certificates, it is news each time: gRPC begins anew with it, so that no session can be
        resumed, which it allows clients whose certificates have expired since.
        """
        if (now := self.identity()) is shown[0] and not self._files.tls_client_ca:
            return None
        shown[0] = now
        return now.grpc

    def _read_again(self, stamps: Stamps) -> None:
        try:
            identity = Identity.of(self._files)
        except Unusable as error:
            self._seen = stamps
            if not self._failing:
                name = getattr(self._files, error.option)
                log.warning("%s %s: TLS goes on with what it was before, until the files are in order.", name, error)
            self._failing = True
            return
        if self._files.stamps() != stamps:
            # They change at this moment, so that one may be of before and one of after: the next handshake looks again.
            return
        if self._failing:
            log.warning("The files of TLS are in order again, and in use.")
        self._seen, self._identity, self._failing = stamps, identity, False
        warn_of_expiry(self._files)


def warn_of_expiry(files: Files) -> None:
    """Log that the server's certificate has expired, if it has: clients that look will not stay."""
    # The only reader of certificates that Python has; `ssl` uses it for those of a peer.
    found = ssl._ssl._test_decode_cert(files.tls_cert)  # type: ignore[attr-defined]
    end = str(found["notAfter"])
    if ssl.cert_time_to_seconds(end) < time.time():
        log.warning("The certificate in %s has expired (%s): clients will refuse it.", files.tls_cert, end)


class CurrentContext(ssl.SSLContext):
    """A context that makes each connection with the one that is current. What was begun with another goes on."""

    current: Any
    most_unknown: int
    unknown: list[tuple[float, weakref.ref[ssl.SSLObject]]]

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """As in `ssl`; what asyncio and uvloop call when a client has connected. If it raises, they close."""
        if len(self.unknown) >= self.most_unknown:
            self._forget_the_known()
        if len(self.unknown) >= self.most_unknown:
            raise ssl.SSLError(f"{self.most_unknown} connections have not begun to talk: no room for one more")
        made: ssl.SSLObject = self.current().wrap_bio(*args, **kwargs)
        self.unknown.append((time.monotonic(), weakref.ref(made)))
        return made

    def _forget_the_known(self) -> None:
        """Leave only those whose handshake isn't done and may still be."""
        since = time.monotonic() - HANDSHAKE_S
        self.unknown = [(began, each) for began, each in self.unknown if began > since and _is_waiting(each())]


def _is_waiting(side: ssl.SSLObject | None) -> bool:
    return side is not None and not getattr(side, "greeted", False)


def _check_certificates(pem: bytes, option: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=_text_of(pem))
    except (ssl.SSLError, ValueError) as error:
        raise Unusable(option, "has no certificate in PEM") from error


def _text_of(pem: bytes) -> str:
    """Return PEM as `ssl` takes it, in ASCII: what stands between certificates, such as names, may be anything."""
    return pem.decode("latin-1").encode("ascii", "replace").decode()


def _load_chain(context: ssl.SSLContext, files: Files) -> None:
    try:
        # A password, so that OpenSSL doesn't ask the terminal for one.
        context.load_cert_chain(files.tls_cert, files.tls_key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Unusable("tls_key", f"is not the key of the certificate in {files.tls_cert!r}") from error
        if error.reason:
            raise Unusable("tls_cert", f"OpenSSL refuses ({error.reason.replace('_', ' ').lower()})") from error
        raise Unusable("tls_key", "has no private key in PEM that can be read (without a password)") from error
    except OSError as error:
        raise Unusable("tls_key", f"cannot be read: {error.strerror}") from error
