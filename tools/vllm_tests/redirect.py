"""A pytest plugin for vLLM's own tests of its API: where they would start `vllm serve`, they get `foreserve serve`.

Options for vLLM's engine that nothing of the API depends on are dropped; a test that wants another one is skipped, by
that option's name. Whatever model a test names, it gets the bundled one under that name, and its tokenizer; adapters
are other names of it.
"""

import contextlib
import importlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
import vllm.tokenizers
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.transformers_utils import repo_utils
from vllm.utils.argparse_utils import FlexibleArgumentParser

from serving.process.server_process import ServerFailed, server
from serving.scenario.scenario import Scenario
from serving.token_source.front_end_options import front_end_fields

TOKEN_MODEL = Scenario().token_model
VOCABULARY = json.loads((Path(TOKEN_MODEL) / "config.json").read_text(encoding="utf-8"))["vocab_size"]
OURS = {"max_model_len", "max_num_seqs", "max_num_batched_tokens"}
"""Fields of vLLM's arguments of which the emulated devices have the same."""
DROPPED = {
    "api_server_count",
    "attention_backend",
    "block_size",
    "cpu_offload_gb",
    "dtype",
    "enable_chunked_prefill",
    "enable_lora",
    "enable_prefix_caching",
    "enforce_eager",
    "gpu_memory_utilization",
    "hf_overrides",
    "host",
    "kv_cache_dtype",
    "load_format",
    "max_cpu_loras",
    "max_cudagraph_capture_size",
    "max_lora_rank",
    "port",
    "seed",
    "tokenizer",
    "trust_remote_code",
    "uvicorn_log_level",
}
"""Fields of vLLM's engine or process that its API does not depend on."""
SAME = {"--structured-outputs-config.backend": "xgrammar"}
"""Options whose value is so here, too."""
REFUSED = 2
"""The exit code of `foreserve serve` where its options can't be."""
REPORT = os.environ["FORESERVE_VLLM_REPORT"]


class Unserved(Exception):
    """An option that `foreserve serve` has not."""


class Shared:
    """The server that is up: tests of several modules use it, as long as they want the same options."""

    def __init__(self) -> None:
        self._key: object = None
        self._stack = contextlib.ExitStack()
        self.child: Any = None

    def want(self, options: list[str], environment: dict[str, str]) -> Any:
        """Return a server with these options."""
        if (
            self._key != (key := (tuple(options), tuple(sorted(environment.items()))))
            or self.child.process.poll() is not None
        ):
            self.close()
            self.child = self._stack.enter_context(server(*options, quiet=True, environment=environment))
            self._key = key
        return self.child

    def close(self) -> None:
        """End it."""
        self._stack.close()
        self._key = None


shared = Shared()
outcomes: dict[str, tuple[str, str]] = {}


def translated(model: str, given: list[str]) -> list[str]:
    """Return a test's options of `vllm serve` as options of `foreserve serve`. Raise `Unserved`."""
    # What `foreserve serve` sets and vLLM doesn't.
    names, options = [model], ["--vllm-option=--no-enable-prompt-tokens-details"]
    for kind, word, values in words_of(given):
        if kind == "served_model_name":
            names = values
        elif kind == "lora_modules":
            names = [*names, *(each.partition("=")[0] for each in values)]
        elif kind in OURS:
            options += [f"--{kind.replace('_', '-')}", *values]
        elif kind in front_end_fields():
            options += [f"--vllm-option={word}", *(f"--vllm-option={each}" for each in values if "=" not in word)]
        elif kind not in DROPPED and [SAME.get(word)] != values:
            raise Unserved(word.partition("=")[0])
    return ["--vllm-option=--served-model-name", *(f"--vllm-option={each}" for each in names), *options]


def words_of(given: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each option with the field of vLLM's arguments that it sets, as it is written, and its values. Raise
    `Unserved`."""
    parser: Any = make_arg_parser(FlexibleArgumentParser())
    known = {option: action for action in parser._actions for option in action.option_strings}
    rest = list(map(str, given))
    while rest:
        word = rest.pop(0)
        name, is_joined, value = word.partition("=")
        action = known.get(name.partition(".")[0].replace("_", "-"))
        if action is None:
            raise Unserved(f"{name}, which vLLM's parser does not know")
        values = [value] if is_joined else []
        while not is_joined and action.nargs != 0 and rest and not rest[0].startswith("--"):
            values.append(rest.pop(0))
        yield action.dest, word, values


def begin(self: Any, model: str, vllm_serve_args: list[str], *, env_dict: Any = None, **rest: Any) -> None:
    """Stand in for `RemoteOpenAIServer.__init__`."""
    if rest.get("override_hf_configs"):
        pytest.skip("wants another model: override_hf_configs")
    try:
        options = translated(model, vllm_serve_args)
    except Unserved as unserved:
        pytest.skip(f"wants an option of vLLM's engine or server: {unserved}")
    try:
        child = shared.want(options, {str(name): str(value) for name, value in (env_dict or {}).items()})
    except ServerFailed as failed:
        if failed.exit_code != REFUSED:
            pytest.fail(f"foreserve does not start with {' '.join(options)}: {failed}")
        pytest.skip(f"foreserve refuses its options: {' '.join(options)} ({failed})")
    self.uds, self.host, self.proc = None, "127.0.0.1", child.process
    self.port, self.show_hidden_metrics = int(child.http_url.rpartition(":")[2]), False


@pytest.fixture
def local_asset_server() -> None:
    """Stand in for a server of pictures, which tests of text ask for, too."""


def pytest_configure(config: pytest.Config) -> None:
    """Redirect what starts servers, and what reads tokenizers."""
    utils = importlib.import_module("tests.utils")
    remote = utils.RemoteOpenAIServer
    remote.__init__, remote._shutdown = begin, lambda self: None
    # The helper's own patches of fixtures keep working: only the files of models are ours.
    read, auto = vllm.tokenizers.get_tokenizer, transformers.AutoTokenizer.from_pretrained
    for module in (vllm.tokenizers, utils):
        module.get_tokenizer = lambda *name, **named: read(TOKEN_MODEL)
    transformers.AutoTokenizer.from_pretrained = lambda *name, **named: auto(TOKEN_MODEL)
    # Adapters' files, which nobody reads.
    type(repo_utils.hf_api()).snapshot_download = lambda *name, **named: TOKEN_MODEL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that ask for the size of a model's vocabulary know that of the bundled one."""
    for module in {item.getparent(pytest.Module) for item in items}:
        if module is not None and hasattr(module.obj, "get_vocab_size"):
            module.obj.get_vocab_size = lambda name: VOCABULARY


def pytest_collectreport(report: Any) -> None:
    """Keep what has no tests as it could not be collected, or skipped itself as a whole."""
    if not report.passed:
        keep(report)


def pytest_runtest_logreport(report: Any) -> None:
    """Keep what became of a test: a failure, or a skip, in any of its phases."""
    if (report.when == "call" or not report.passed) and (report.nodeid not in outcomes or report.failed):
        keep(report)


def keep(report: Any) -> None:
    """Keep an outcome, with a line about it: of a traceback as a whole its last."""
    why, crash = report.longrepr, getattr(report.longrepr, "reprcrash", None)
    last = (str(why or "").strip().splitlines() or [""])[-1]
    text = why[2] if isinstance(why, tuple) else crash.message.partition("\n")[0] if crash else last
    outcomes[report.nodeid] = (report.outcome, text[:300])
    note(report.nodeid, report.outcome, text[:300])


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note which test begins: one may end this process."""
    note(nodeid, "failed", "ended pytest itself, or timed out")


def note(*said: str) -> None:
    """Add a line to the report."""
    with Path(REPORT).open("a", encoding="utf-8") as report:
        report.write(json.dumps(said) + "\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the server."""
    shared.close()
    note("", "ended", "")
    print("\n", dict(Counter(outcome for outcome, _ in outcomes.values())))
