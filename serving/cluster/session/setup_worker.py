"""A Python that becomes a worker of Ray's, as Ray's own script of this name does, but in a tenth of its time.

    python setup_worker.py PROGRAM ... --language=PYTHON --serialized-runtime-env-context=CONTEXT

Ray starts the worker of an actor by such a script where the actor has an environment of its own (`runtime_env`). Ray's
script imports all of Ray, half a second, though the environment of forks is but another Python (`py_executable`). For
any other environment this one runs Ray's. Nothing here but the standard library.
"""

import json
import os
import shlex
import sys
from pathlib import Path

CONTEXT, LANGUAGE = "--serialized-runtime-env-context=", "--language="
ONLY = "py_executable"


def main() -> None:
    """Run the worker's program in the place of this one."""
    command = worker_command(sys.argv[1:])
    os.execv(command[0], command)


def worker_command(arguments: list[str]) -> list[str]:
    """Return the command of a worker that Ray starts with the arguments of its script."""
    program = [each for each in arguments if not each.startswith((CONTEXT, LANGUAGE))]
    contexts = [json.loads(each.removeprefix(CONTEXT)) for each in arguments if each.startswith(CONTEXT)]
    wanted = {name for context in contexts for name, value in context.items() if value}
    if wanted == {ONLY}:
        return [*shlex.split(contexts[0][ONLY]), *program]
    return [sys.executable, str(rays_own(program)), *arguments]


def rays_own(program: list[str]) -> Path:
    """Return Ray's script, which lies beside the program of its workers."""
    worker = next(each for each in program if each.endswith(".py"))
    return Path(worker).with_name("setup_worker.py")


if __name__ == "__main__":
    main()
