"""Does `foreserve call` say of what there is none, as it was written?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from serving.cli.grpc_call import call
from serving.security.client_trust import SYSTEMS
from serving.usage_error import CommandFailed

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
