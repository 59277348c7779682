"""Does `foreserve call` say of what there is none, as it was written?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from serving.cli.grpc_call import call
from serving.cli.main import parse
from serving.security.client_trust import SYSTEMS
from serving.usage_error import CommandFailed, UsageError

HEALTH = "grpc.health.v1.Health"


@pytest.fixture
def target() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    names = [health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME]
    reflection.enable_server_reflection(names, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("Health", f"there is no service 'Health'; there are {HEALTH}"),
        ("grpc.health.v1.Heath/Check", f"there is no service 'grpc.health.v1.Heath' (did you mean `{HEALTH}`?)"),
        (HEALTH, f"{HEALTH} has no method ''; it has Check"),
        (f"/{HEALTH}/Chek", f"{HEALTH} has no method 'Chek' (did you mean `Check`?)"),
    ],
)
def test_what_there_is_none_of_is_named(target: str, method: str, words: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        call(target, SYSTEMS, method, "{}", ())
    assert words in str(caught.value)


def test_a_method_answers(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    call(target, SYSTEMS, f"{HEALTH}/Check", "{}", ())
    assert capsys.readouterr().out == '{"status": "SERVING"}\n'


@pytest.mark.parametrize(
    "entry", ["x-foreserve-topic: R\u00e9sum\u00e9", "x-foreserve-topic: a\nb", "no colon", "a b: c"]
)
def test_metadata_that_cannot_be_sent_is_refused_in_a_sentence(entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["call", "127.0.0.1:9", "Health", "-H", entry])
    assert ended.value.code == 2 and "allowed is NAME: VALUE in printable ASCII" in capsys.readouterr().err


def test_metadata_is_text_or_where_its_name_ends_so_bytes() -> None:
    args = parse(["call", "127.0.0.1:9", "Health", "-H", "X-Foreserve-SLO: chat", "-H", "Trace-Bin: abc"])
    assert args.metadata == [("x-foreserve-slo", "chat"), ("trace-bin", b"abc")]


@pytest.mark.parametrize("words", [["call", "127.0.0.1:9", "Health"], ["top", "127.0.0.1:9", "--once"]])
def test_a_key_that_cannot_be_sent_is_refused_in_a_sentence(words: list[str]) -> None:
    args = parse([*words, "--api-key", "schl\u00fcssel"])
    with pytest.raises(UsageError, match=r"^--api-key, or OPENAI_API_KEY, must be printable ASCII\.$"):
        args.run(args)
