"""Our clients' side of TLS: whom they trust, and what they show of themselves."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.usage_error import UsageError

OWN_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""What names grpc's authorities in place of those that it brings along, which are not the system's."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Files in PEM: who vouches for servers ("": those that the system trusts), and a certificate with its key.

    `pinned`: the server's own certificate is in `ca_file`, so that it may have any name.
    """

    ca_file: str = ""
    client_cert: str = ""
    client_key: str = ""
    pinned: bool = False

    def context(self) -> ssl.SSLContext:
        """For HTTP. Raise `UsageError`."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            # A server's own certificate will do as well as that of who signed it.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.check_hostname = not self.pinned
            if self.client_cert:
                context.load_cert_chain(self.client_cert, self.client_key or None, password="")
        except OSError as error:
            named = " ".join(filter(None, (self.ca_file, self.client_cert, self.client_key)))
            raise UsageError(f"TLS cannot be had with {named} ({error.strerror or error}).") from error
        return context

    def grpc_credentials(self) -> Any:
        """For gRPC. Raise `UsageError`."""
        import grpc

        self.context()
        authorities = Path(self.ca_file).read_bytes() if self.ca_file else system_authorities()
        shown = (self.client_key or self.client_cert, self.client_cert)
        return grpc.ssl_channel_credentials(authorities, *(Path(name).read_bytes() if name else None for name in shown))


def system_authorities() -> bytes | None:
    """Return those whom the system trusts, in PEM, from where OpenSSL looks for them; None if there are none, or
    `OWN_ROOTS` names others for gRPC."""
    if os.environ.get(OWN_ROOTS):
        return None
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    if paths.capath:
        # By hashes of names, as they are looked up there: beside them lie the same ones by their names.
        files += sorted(Path(paths.capath).glob("*.[0-9]"))
    return b"\n".join(path.read_bytes() for path in files if os.access(path, os.R_OK)) or None


SYSTEMS = Trust()
"""What the system trusts, and nothing to show."""
