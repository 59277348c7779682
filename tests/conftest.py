"""Real servers for the tests: brought up once, with real Ray, real vLLM, real HTTP and gRPC."""

import logging
import re
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import openai
import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from serving.process import server_process
from serving.process.process_priority import defer_garbage, settle
from serving.process.server_process import ServerProcess, server
from tests.serving.observed_server import Observed, observed_server
from tests.warm import fork as warm

# How long an example takes is the machine's business, and no test's. `fixed`, of `make test`, tries the same examples
# each time; `random`, of `make test-all`, others each time and more of them, and remembers those that failed.
settings.register_profile(
    "random",
    deadline=None,
    derandomize=False,
    max_examples=1000,
    print_blob=True,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
)
settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=50, database=None)
settings.load_profile("fixed")

# What a package of vLLM's does to the root logger when it is first imported is not to silence ours.
logging.getLogger("foreserve").setLevel(logging.WARNING)


# Most of what it takes to be ready is importing vLLM. Those that tests start by a command of their own do so.
server_process.start_process = warm.start

# Of a file that starts a server, or asks one of those below: its tests keep real time.
SERVERS = re.compile(
    r"^def .*[(, ]((small|recorded|observed)_)?emulator\b|^from serving\.process\.server_process import .*\bserver\b"
    r"|pytest\.mark\.alone",
    re.MULTILINE,
)

SHARED = {"emulator", "small_emulator", "recorded_emulator", "observed_emulator"}

# What such tests check may keep no time, and they may then share the machine.
BESIDE = "pytest.mark.beside"


@cache
def is_alone(path: Path) -> bool:
    """Whether the tests of a file are to be run one at a time."""
    text = path.read_text(encoding="utf-8")
    return SERVERS.search(text) is not None and BESIDE not in text


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import all tests without the garbage collector, and have it leave alone what has been imported: it stays."""
    defer_garbage()
    found = yield
    settle()
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of real servers, and have those come first that take longest."""
    for item in items:
        if is_alone(item.path):
            item.add_marker("alone")
        elif SHARED & set(getattr(item, "fixturenames", ())):
            raise pytest.UsageError(f"{item.nodeid} wants a server that others share, and its file does not say so.")
    items.sort(key=lambda item: (not is_alone(item.path), item.get_closest_marker("beside") is None))


class OneServerAtATime(LoadFileScheduling):  # type: ignore[misc]
    """One of the workers has all tests that are alone, the others the rest, file by file: a file's tests share what
    they have made."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "alone" if is_alone(self.config.rootpath / file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneServerAtATime:
    """Called by pytest-xdist, if there are several workers."""
    return OneServerAtATime(config, log)


MODEL = "qwen3-30b-a3b"
SECRET = "open-sesame"
CONTEXT, QUEUE = 1024, 64


@pytest.fixture(scope="session")
def emulator() -> Iterator[ServerProcess]:
    """Two devices, fast enough for tests to be short and slow enough for tokens to be on time."""
    options = ("--devices", "2", "--speed", "4", "--max-model-len", str(CONTEXT), "--max-queue", str(QUEUE))
    with server(*options, quiet=True) as child:
        yield child


@pytest.fixture(scope="session")
def small_emulator() -> Iterator[ServerProcess]:
    """One slow device behind a key, with two places in its queue."""
    with server("--speed", "0.2", "--max-queue", "2", "--api-key", SECRET, quiet=True) as child:
        yield child


@pytest.fixture(scope="session")
def discovery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `recorded_emulator` names itself to Prometheus."""
    return tmp_path_factory.mktemp("recorded") / "found.json"


@pytest.fixture(scope="session")
def recorded_emulator(discovery: Path) -> Iterator[ServerProcess]:
    """Two devices, with recorded text for whoever can have it; tests/serving/process/test_shutdown.py kills it."""
    options = ("--devices", "2", "--text", "recorded", "--residency", "trace", "--discovery-file", str(discovery))
    with server(*options, quiet=True) as child:
        yield child


@pytest.fixture(scope="session")
def observed_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Two devices with all logs and traces; tests/serving/telemetry/tracing/test_observed_server.py ends it."""
    with observed_server(tmp_path_factory.mktemp("observed")) as found:
        yield found


@pytest.fixture
def client(emulator: ServerProcess) -> openai.OpenAI:
    """The `openai` client, as users have it, but for its retries."""
    return openai.OpenAI(base_url=f"{emulator.http_url}/v1", api_key="none", max_retries=0)
