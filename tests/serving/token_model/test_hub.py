"""Is of a model of the hub fetched what a recording needs, and no more? Of a hub on this machine, over HTTP."""

import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from serving.recordings.recording import TOKENIZERS
from serving.scenario.scenario import BUNDLED

PROGRAM = """
import sys
from serving.token_model.config_file import folder_with
print(*sorted(path.name for path in folder_with(sys.argv[1], sys.argv[2:]).iterdir()))
"""


class Hub(BaseHTTPRequestHandler):
    """Has the files of a bundled model, and of another one the configuration alone."""

    def do_GET(self) -> None:
        found = self._file()
        if found is not None and self.command == "GET":
            self.wfile.write(found)

    do_HEAD = do_GET

    def _file(self) -> bytes | None:
        name, has_all = self.path.rpartition("/")[2], "/of/whole/" in self.path
        there = name == "config.json" or (has_all and name == "tokenizer.json")
        content = (BUNDLED / "foreserve-tiny" / name).read_bytes() if there else b""
        self.send_response(200 if there else 404)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{sha1(content).hexdigest()}"')
        if not there:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return content if there else None

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.mark.parametrize(
    ("model", "files"), [("of/whole", "config.json tokenizer.json"), ("of/configuration", "config.json")]
)
def test_a_tokenizer_is_fetched_where_there_is_one(tmp_path: Path, hub: str, model: str, files: str) -> None:
    env = os.environ | {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model, *TOKENIZERS], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == files, done.stderr[-2000:]
