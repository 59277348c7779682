"""Run vLLM's own tests of its OpenAI API against `foreserve serve`: fetch them first, of vLLM's source distribution.

    python tools/vllm_tests/run.py [FILE ...]

Nothing of them is in this repository: they lie in the user's cache. What is expected to fail, with its reason, is in
`known.toml` beside this file; whatever else fails makes this fail. Without the distribution, it says so, and ends well.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VERSION = "0.32.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foreserve" / f"vllm-{VERSION}"
# What these tests import, and ours do not.
EXTRAS = ("pytest-asyncio", "tblib")
# Ours, and files of fixtures that would be found if the whole tree were collected.
PLUGINS = (
    "redirect",
    "tests.entrypoints.conftest",
    "tests.entrypoints.openai.responses.conftest",
    "tests.entrypoints.serve.sagemaker.conftest",
)
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def fetch() -> str:
    """Have the tests in the cache; return why they aren't, or ""."""
    if (CACHE / "tests").is_dir():
        return ""
    with tempfile.TemporaryDirectory(prefix="vllm-source-") as work:
        # Its metadata can't be made without a compiler and more: what pip has unpacked for that stays with --no-clean.
        wanted = ["--no-deps", "--no-build-isolation", "--no-clean", "--no-binary", ":all:", f"vllm=={VERSION}"]
        got = subprocess.run(
            [*PIP, "download", "--dest", work, *wanted],
            env=os.environ | {"TMPDIR": work},
            capture_output=True,
            text=True,
        )
        for archive in Path(work).glob("*.tar.gz"):
            shutil.unpack_archive(archive, work, filter="data")
        found = [each for each in Path(work).rglob("tests") if (each / "entrypoints").is_dir()]
        if not found:
            return (got.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        extras = subprocess.run([*PIP, "install", "--no-deps", "--target", str(CACHE / "extras"), *EXTRAS], check=False)
        if extras.returncode:
            return f"pip could not install {', '.join(EXTRAS)}"
        shutil.copytree(found[0], CACHE / "tests.part", dirs_exist_ok=True)
        (CACHE / "tests.part").rename(CACHE / "tests")
    return ""


def files_of(known: dict[str, dict[str, str]]) -> list[str]:
    """Return the files whose tests ask a server, but for those that are left out."""
    entrypoints = sorted((CACHE / "tests" / "entrypoints").rglob("test_*.py"))
    asking = [path for path in entrypoints if "RemoteOpenAIServer" in path.read_text(encoding="utf-8")]
    names = [str(path.relative_to(CACHE)) for path in asking]
    return [name for name in names if not any(fnmatch(name, pattern) for pattern in known["left_out"])]


def run(files: list[str]) -> dict[str, tuple[str, str]]:
    """Run tests; return the outcome of each, with a word about it. One that ends pytest costs the rest of its file."""
    outcomes: dict[str, tuple[str, str]] = {}
    while files:
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as report:
            ask_pytest(files, report.name)
            lines = [json.loads(line) for line in Path(report.name).read_text(encoding="utf-8").splitlines()]
        outcomes |= {test: (outcome, why) for test, outcome, why in lines if test}
        # Tests that began, and the last word. A file that can't be collected is told of before any.
        begun = [test for test, *_ in lines if "::" in test or not test]
        last = begun[-1] if begun else ""
        # Without a last word pytest has died: where nothing began, nothing will.
        files = files[files.index(last.partition("::")[0]) + 1 :] if last else []
    return outcomes


def ask_pytest(files: list[str], report: str) -> None:
    """Have pytest run files, and add to a report."""
    # The tests are a package of the same name as ours: theirs is found first.
    paths = [str(CACHE), str(HERE), str(ROOT), str(CACHE / "extras")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "FORESERVE_VLLM_REPORT": report}
    # A model that a test loads for itself is asked for once, and not five times.
    environment["HF_HUB_OFFLINE"] = "1"
    options = [word for plugin in PLUGINS for word in ("-p", plugin)]
    options += ["--noconftest", "--rootdir", str(CACHE), "-o", "asyncio_mode=auto", "-o", "addopts=", "--tb=line"]
    options += ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=120", "--continue-on-collection-errors"]
    subprocess.run([sys.executable, "-m", "pytest", *options, *files], cwd=CACHE, env=environment, check=False)


def main() -> int:
    """Fetch, run and compare with what is known; return the exit code."""
    if why := fetch():
        print(f"vLLM's own tests are not run: its source distribution {VERSION} could not be had ({why}).")
        return 0
    known = tomllib.loads((HERE / "known.toml").read_text(encoding="utf-8"))
    asked = sys.argv[1:]
    outcomes = run(asked or files_of(known))
    with contextlib.suppress(KeyError):
        Path(os.environ["FORESERVE_VLLM_OUTCOMES"]).write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
    code = judge(outcomes, known["fails"])
    return code if asked else max(code, judge_whole(outcomes, known["fails"]))


def judge(outcomes: dict[str, tuple[str, str]], excused: Iterable[str]) -> int:
    """Say what became of tests; return 1 if there were none, or one failed that no pattern excuses, else 0."""
    failed = {test: why for test, (outcome, why) in outcomes.items() if outcome == "failed"}
    expected = {test for test in failed if any(is_of(pattern, test) for pattern in excused)}
    print(f"{dict(Counter(outcome for outcome, _ in outcomes.values()))}, of the failures {len(expected)} known")
    for why, count in Counter(why for outcome, why in outcomes.values() if outcome == "skipped").most_common():
        print(f"  not run: {count}: {why}")
    for test in sorted(failed.keys() - expected):
        print(f"  FAILED {test}: {failed[test]}")
    return 1 if failed.keys() - expected or not outcomes else 0


def judge_whole(outcomes: dict[str, tuple[str, str]], excused: Iterable[str]) -> int:
    """Say of a run of all tests which excuses nobody needs any more; return 1 if none passed: no server was asked."""
    failed = [test for test, (outcome, _) in outcomes.items() if outcome == "failed"]
    for pattern in excused:
        if not any(is_of(pattern, test) for test in failed):
            print(f"  excused, and did not fail: {pattern}")
    passed = any(outcome == "passed" for outcome, _ in outcomes.values())
    if not passed:
        print("  None passed: no server has answered.")
    return 0 if passed else 1


def is_of(pattern: str, test: str) -> bool:
    """Tell whether a pattern of `known.toml` is of a test."""
    return fnmatch(test, f"*{pattern}*")


if __name__ == "__main__":
    sys.exit(main())
