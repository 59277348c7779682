"""Real servers for the tests: brought up once, with real Ray, real vLLM, real HTTP and gRPC."""

import logging
from collections.abc import Iterator

import openai
import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from serving.child import Child, server

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
settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=100, database=None)
settings.load_profile("fixed")

# What a package of vLLM's does to the root logger when it is first imported is not to silence ours.
logging.getLogger("foreserve").setLevel(logging.WARNING)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of real servers, which keep real time, as to be run one at a time, and have them come first."""
    for item in items:
        fixtures = {"emulator", "small_emulator"} & set(getattr(item, "fixturenames", ()))
        if fixtures or getattr(getattr(item, "module", None), "server", None) is server:
            item.add_marker("alone")
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group("alone"))
    items.sort(key=lambda item: item.get_closest_marker("alone") is None)


class OneServerAtATime(LoadGroupScheduling):
    """One of the workers has all tests that are alone. The others take the rest, file by file: a file's tests share what
    they have made."""

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if group == nodeid else group


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneServerAtATime:
    """Called by pytest-xdist, if there are several workers."""
    return OneServerAtATime(config, log)


MODEL = "qwen3-30b-a3b"
SECRET = "open-sesame"
CONTEXT, QUEUE = 1024, 64


@pytest.fixture(scope="session")
def emulator() -> Iterator[Child]:
    """Two devices, fast enough for tests to be short and slow enough for tokens to be on time."""
    options = ("--devices", "2", "--speed", "4", "--max-model-len", str(CONTEXT), "--max-queue", str(QUEUE))
    with server(*options, quiet=True) as child:
        yield child


@pytest.fixture(scope="session")
def small_emulator() -> Iterator[Child]:
    """One slow device behind a key, with two places in its queue."""
    with server("--speed", "0.2", "--max-queue", "2", "--api-key", SECRET, quiet=True) as child:
        yield child


@pytest.fixture
def client(emulator: Child) -> openai.OpenAI:
    """The `openai` client, as users have it, but for its retries."""
    return openai.OpenAI(base_url=f"{emulator.http_url}/v1", api_key="none", max_retries=0)
