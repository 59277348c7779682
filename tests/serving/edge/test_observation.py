"""What the options of observing cost those who do not use them, and what they say to those who do so wrongly."""

import subprocess
import sys

import pytest

LIGHT = """
import sys
from serving.cli import main
from serving.telemetry.tracing.otlp import Otlp
main.make_parser()
Otlp("http://localhost:4317")
print([name for name in ("vllm", "ray", "torch", "opentelemetry.sdk", "pyarrow") if name in sys.modules])
"""


def test_commands_begin_without_what_only_some_of_them_need() -> None:
    """vLLM in particular may not be imported before its settings are made."""
    said = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60)
    assert said.stdout.strip() == "[]", said.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--otlp-traces-endpoint", "localhost:4317"], ["--otlp-traces-endpoint", "'localhost:4317'", "http://"]),
        (["--log-format", "xml"], ["--log-format", "'xml'", "json"]),
        (["--step-log", "/tmp/both", "--flight-log", "/tmp/../tmp/both"], ["--step-log and --flight-log", "two files"]),
        (["--step-log", "/no/such/folder/steps.parquet"], ["--step-log", "/no/such/folder/steps.parquet", "No such"]),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options: list[str], said: list[str]) -> None:
    command = [sys.executable, "-m", "serving.cli", "serve", "--http-port", "0", "--grpc-port", "0", *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert all(word in result.stderr for word in said), result.stderr
