"""What actors are forked from: is it all that they import, and does it leave to each of them what must be its own?"""

import subprocess
import sys

# Two forks of a process that has imported it, one after the other, each with the first ID of an object that it draws.
DRAWN = """
import os
import serving.cluster.forks.actor_imports
from ray import ObjectRef

for _ in range(2):
    if os.fork() == 0:
        os.write(1, ObjectRef.from_random().hex().encode() + b" ")
        os._exit(0)
    os.wait()
"""
# What is still to be imported by the actors themselves, of what is ours.
LEFT = """
import sys
import serving.cluster.forks.actor_imports
before = set(sys.modules)
import serving.cluster.actors, serving.cluster.device_actor
print(*(name for name in set(sys.modules) - before))
"""
ALONE = """
import os
import serving.cluster.forks.actor_imports
print(*(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")))
"""


def told(script: str, **environment: str) -> list[str]:
    """The words that a script prints."""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment or None)
    return ran.stdout.split()


def test_forks_draw_ids_of_their_own() -> None:
    first, second = told(DRAWN)
    assert len(first) == len(second) == 56 and first != second


def test_nothing_but_the_actors_is_left_to_be_imported() -> None:
    assert set(told(LEFT)) == {"serving.cluster.actors", "serving.cluster.device_actor"}


def test_no_thread_is_there_that_a_fork_would_lack() -> None:
    assert told(ALONE, OPENBLAS_NUM_THREADS="1") == ["python"]
