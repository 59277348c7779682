"""Parses HTTP requests that ask to go on in another protocol as if they did not, which RFC 9110 leaves to the server.

Java's HTTP client asks for HTTP/2 so (`Upgrade: h2c`) with each request that it makes in the clear. The parser stops
there, and takes what follows, the body, for bytes of that protocol.
"""

from typing import Any

from httptools import HttpParserUpgrade, HttpRequestParser


class RequestParser:
    """httptools' parser, which calls a connection, and reads on behind a head that asks for an upgrade."""

    def __init__(self, connection: Any) -> None:
        """Parse for `connection`, which has uvicorn's `url` and `headers`, and `is_refused`."""
        self._connection = connection
        self._parser = _parser_of(connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    @property
    def stops(self) -> bool:
        """Tell whether the head that has just been read asks for an upgrade: it will be read again, without."""
        return bool(self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT")

    def feed_data(self, data: bytes) -> None:
        """Parse bytes that have come, and call the connection as httptools does."""
        while True:
            try:
                self._parser.feed_data(data)
                return
            except HttpParserUpgrade as upgrade:
                if self._connection.is_refused or not self.stops:
                    return
                data = self._plain_head() + data[upgrade.args[0] :]
                self._parser = _parser_of(self._connection)

    def _plain_head(self) -> bytes:
        connection, version = self._connection, self._parser.get_http_version().encode()
        lines = [self._parser.get_method() + b" " + connection.url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in connection.headers if name != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"


def _parser_of(connection: Any) -> HttpRequestParser:
    parser = HttpRequestParser(connection)
    # As uvicorn does.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
