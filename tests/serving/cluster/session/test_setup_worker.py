"""The script that becomes a worker of Ray's: does the same program run, in the same environment, as by Ray's own?"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray._private.workers import setup_worker as rays_own

from serving.cluster.session import setup_worker

ECHO = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('COLOUR')]))"
WORKER = str(Path(rays_own.__file__).with_name("default_worker.py"))
ARGUMENTS = ["--node-ip-address=127.0.0.1", "--webui=", "--raylet-name=/tmp/a folder/raylet", "--language=PYTHON"]


def echoed(script: str, context: dict[str, Any]) -> Any:
    """The arguments of the program that a script becomes, and a variable of its environment."""
    told = f"--serialized-runtime-env-context={json.dumps(context)}"
    command = [sys.executable, script, WORKER, *ARGUMENTS, told]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command of a Python that tells what it is given, in a folder whose name has a space."""
    program = tmp_path_factory.mktemp("a folder") / "echo.py"
    program.write_text(ECHO)
    return shlex.join([sys.executable, str(program)])


@pytest.mark.parametrize("colour", [{}, {"COLOUR": "blue green"}])
def test_another_python_is_given_what_rays_own_script_gives_it(echo: str, colour: dict[str, str]) -> None:
    context = {"command_prefix": [], "env_vars": colour, "py_executable": echo, "override_worker_entrypoint": None}
    context["java_jars"] = []
    ours = echoed(setup_worker.__file__, context)
    assert ours == echoed(rays_own.__file__, context)
    assert ours == [[WORKER, *ARGUMENTS[:3]], colour.get("COLOUR")]


def test_an_environment_with_more_than_another_python_is_left_to_rays_own() -> None:
    for more in ({"command_prefix": ["nice"]}, {"env_vars": {"A": "b"}}, {"override_worker_entrypoint": "/w.py"}):
        context = f"--serialized-runtime-env-context={json.dumps({'py_executable': 'python', **more})}"
        command = setup_worker.worker_command(["-S", WORKER, *ARGUMENTS, context])
        assert command == [sys.executable, rays_own.__file__, "-S", WORKER, *ARGUMENTS, context]


def test_without_an_environment_it_is_left_to_rays_own() -> None:
    assert setup_worker.worker_command([WORKER, "--a"]) == [sys.executable, rays_own.__file__, WORKER, "--a"]
