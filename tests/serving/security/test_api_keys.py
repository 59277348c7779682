"""Where keys come from, and what is left of them."""

import logging
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from serving.cli.arguments.scenario import scenario_of
from serving.cli.main import make_parser
from serving.edge.preflight import prepare
from serving.scenario.scenario import Scenario, ScenarioError
from serving.security.access import Access, concerns, is_loopback
from serving.security.api_keys import admin_keys, api_keys, digest, environment_of

KEY = "sesame-street-1234"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORESERVE_API_KEYS", "FORESERVE_ADMIN_KEY", "VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def file(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "keys"
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)


def test_keys_come_from_all_that_says_some_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORESERVE_API_KEYS", " e, f\tg\n,a,")
    monkeypatch.setenv("VLLM_API_KEY", "not-where-there-are-others")
    name = file(tmp_path, b"# ours\nc\r\n\n  d  \n# theirs\na")
    assert api_keys(Scenario(api_keys=("a", "b"), api_key_file=name)) == ("a", "b", "c", "d", "e", "f", "g")


def test_vllms_own_counts_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "v")
    assert api_keys(Scenario()) == ("v",)
    monkeypatch.setenv("VLLM_API_KEY", "")
    assert api_keys(Scenario()) == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"good\nb\xc3\xa4d\n", "line 2"),
        (b"\xff\xfe", "line 1"),
        (b"# one\n\ntwo words\n", "line 3"),
        (b"a,b\n", "line 1"),
        (b"a\x00b", "line 1"),
        (b"a" * (2**20 + 1), "1048576 bytes are the most"),
        (b"", "no key in it"),
        (b"# nothing\n\n  \n", "no key in it"),
    ],
)
def test_what_is_no_key_is_told_with_file_and_line_and_not_shown(tmp_path: Path, content: bytes, said: str) -> None:
    name = file(tmp_path, content)
    for options in ({"api_key_file": name}, {"admin_key_file": name}):
        with pytest.raises(ScenarioError) as caught:
            Access.of(Scenario(**options))  # type: ignore[arg-type]
        assert said in str(caught.value) and name in str(caught.value) and str(caught.value).endswith(".")
        assert "two words" not in str(caught.value) and "a,b" not in str(caught.value)


@pytest.mark.parametrize("name", ["/nowhere/at/all", "/"])
def test_a_file_that_cannot_be_read_is_told(name: str) -> None:
    with pytest.raises(ScenarioError, match=r"`api_key_file` is .* cannot be read"):
        api_keys(Scenario(api_key_file=name))


@pytest.mark.parametrize("key", ["", "two words", "ä", "a,b", "a\nb"])
def test_no_key_is_empty_or_what_no_header_carries(key: str) -> None:
    with pytest.raises(ScenarioError, match="An entry of `api_keys`"):
        api_keys(Scenario(api_keys=(key,)))
    with pytest.raises(ScenarioError, match="An entry of `admin_keys`"):
        admin_keys(Scenario(admin_keys=(key,)))


@pytest.mark.parametrize("text", [" ", ",", "ä", "a\x7f"])
def test_a_variable_without_a_key_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORESERVE_API_KEYS", text)
    with pytest.raises(ScenarioError, match="FORESERVE_API_KEYS"):
        api_keys(Scenario())


def test_the_admins_key_is_no_clients() -> None:
    with pytest.raises(ScenarioError, match="must differ"):
        Access.of(Scenario(api_keys=("a", "b"), admin_keys=("b",)))


def test_a_file_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = file(tmp_path, b"a\n")
    with caplog.at_level(logging.WARNING):
        assert api_keys(Scenario(api_key_file=name)) == ("a",)
        assert not caplog.records
        Path(name).chmod(0o644)
        assert api_keys(Scenario(api_key_file=name)) == ("a",)
    assert name in caplog.text and "chmod 600" in caplog.text


def test_what_is_brought_up_has_digests_and_no_process_inherits_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESERVE_API_KEYS", KEY)
    monkeypatch.setenv("FORESERVE_ADMIN_KEY", "root-" + KEY)
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    name = file(tmp_path, b"in-" + KEY.encode())
    scenario = Scenario(api_keys=("said-" + KEY,), api_key_file=name, http_port=0, grpc_port=0)
    prepared = prepare(scenario)
    prepared.sock.close()
    assert prepared.access == Access(
        (digest("said-" + KEY), digest("in-" + KEY), digest(KEY)), (digest("root-" + KEY),), loopback=True
    )
    assert KEY.encode() not in pickle.dumps(prepared.scenario) and KEY not in repr(prepared.scenario)
    assert KEY not in repr(scenario) and not [value for value in os.environ.values() if KEY in value]


def test_a_server_that_we_start_ourselves_gets_them_in_its_environment(tmp_path: Path) -> None:
    scenario = Scenario(api_keys=("a", "b"), api_key_file=file(tmp_path, b"c"), admin_keys=("d",))
    assert environment_of(scenario) == {"FORESERVE_API_KEYS": "a,b,c", "FORESERVE_ADMIN_KEY": "d"}
    assert environment_of(Scenario()) == {}


def test_what_is_named_by_an_empty_variable_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--api-key-file", "--admin-key-file"):
        with pytest.raises(SystemExit):
            make_parser().parse_args(["serve", option, ""])
        assert option in capsys.readouterr().err
    with pytest.raises(ScenarioError, match="is empty"):
        api_keys(scenario_of(make_parser().parse_args(["serve", "--api-key", ""])))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LocalHost")),
        *((host, False) for host in ("0.0.0.0", "::", "", "10.0.0.1", "example.com", "localhost.example.com", "1")),
    ],
)
def test_what_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_who_opens_a_server_hears_what_that_means() -> None:
    key = (digest("a"),)
    assert concerns(Access(loopback=True), "127.0.0.1", encrypted=False) == []
    (said,) = concerns(Access(loopback=False), "0.0.0.0", encrypted=False)
    assert "--api-key-file" in said and "0.0.0.0" in said
    (said,) = concerns(Access(key, loopback=False), "0.0.0.0", encrypted=False)
    assert "--tls-cert" in said
    assert concerns(Access(key, loopback=False), "0.0.0.0", encrypted=True) == []


SLEEPER = """
import sys, time
from serving.process.hidden_arguments import hide
hide()
print(sys.argv[1:], sys.orig_argv, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key", KEY, "--devices", "2"],
        [f"--api-key={KEY}"],
        ["--admin-key", KEY, f"--api-key={KEY}", "--api-key", KEY],
        ["--admin", KEY, f"--api-k={KEY}", "call", "--a", KEY],
    ],
)
def test_ps_shows_no_key(arguments: list[str]) -> None:
    command = [sys.executable, "-c", SLEEPER, "serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert KEY not in process.stdout.readline()
            shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(process.pid)], capture_output=True, text=True)
            assert "serve" in shown.stdout and "*" * len(KEY) in shown.stdout and KEY not in shown.stdout
            assert "--devices" not in arguments or "--devices 2" in shown.stdout
        finally:
            process.kill()


FORGETTER = """
import os, sys
from pathlib import Path
from serving.security.api_keys import forget
own = "/proc/self/environ"
before = Path(own).read_bytes()
forget()
pid = os.fork()
if pid == 0:
    os._exit(any(key.encode() in Path(own).read_bytes() for key in sys.argv[1:]))
after = Path(own).read_bytes()
same = [one for one in before.split(b"\\0") if one in after.split(b"\\0")]
print(len(before) - len(after), len(before.split(b"\\0")) - len(same), os.environ["KEPT"], os.waitpid(pid, 0)[1])
print(any(name in os.environ for name in ("FORESERVE_API_KEYS", "FORESERVE_ADMIN_KEY", "VLLM_API_KEY")))
"""


def test_neither_the_kernel_nor_a_fork_knows_the_keys_of_the_environment() -> None:
    # Words that no other variable can hold by chance: who runs these tests has variables of his own.
    secrets = [f"{KEY}-9f31c7", "second-9f31c7", "the-admins-9f31c7", "of-vllm-9f31c7"]
    keys = {"FORESERVE_API_KEYS": ",".join(secrets[:2]), "FORESERVE_ADMIN_KEY": secrets[2], "VLLM_API_KEY": secrets[3]}
    command = [sys.executable, "-c", FORGETTER, *secrets]
    environment = {**os.environ, **keys, "KEPT": "as it was"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.split("\n")[:2] == ["0 3 as it was 0", "False"]


def test_limits_are_of_the_key_that_is_shown() -> None:
    from serving.call import Call
    from serving.security.key_names import KeyNames

    keys = KeyNames(Access.of(Scenario(api_keys=("alpha", "beta"))).api)
    for shown, name in (("Bearer alpha", "0"), ("bearer beta", "1"), ("Bearer root", ""), ("", "")):
        assert keys.name_of(Call(0.0, [(b"authorization", shown.encode())])) == name
    assert replace(Scenario(), api_keys=("a",)).api_keys == ("a",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--tls-cert", "/nowhere", "--tls-key", "/nowhere"],
            "`--tls-cert` (tls_cert) is '/nowhere', which cannot be read",
        ),
        (["--tls-cert", "/nowhere"], "`--tls-cert` (tls_cert) is set, and `tls_key` is not"),
        (["--api-key-file", "/nowhere"], "`--api-key-file` (api_key_file) is '/nowhere', which cannot be read"),
        (
            ["--admin-key-file", "/dev/null"],
            "`--admin-key-file` (admin_key_file) is '/dev/null', which has no key in it",
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_started_and_so_is_a_key_that_ps_saw(
    options: list[str], said: str
) -> None:
    command = [sys.executable, "-m", "serving.cli", "serve", "--api-key", KEY, *options]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 2 and said in told.stderr
    assert "Ray" not in told.stdout and "--api-key-file" in told.stderr
    assert KEY not in told.stdout + told.stderr
