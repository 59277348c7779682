"""How vLLM's processes meet: by a file that is kept in the run's folder and removed with it, if there are several."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from torch import distributed
from vllm.platforms import current_platform
from vllm.v1.executor import uniproc_executor


def meet_in(folder: Path) -> None:
    """Have this process's engine put the file by which its workers meet into the folder of a run.

    vLLM would leave it among the temporary files, where nobody removes it.
    """
    uniproc_executor.get_file_store_init_method = lambda: f"file://{folder}/rendezvous-{uuid4().hex}"


def share_one_group() -> None:
    """Have this process's engine, if it is the only one and on CPUs, take the group of all processes for each group.

    vLLM makes a dozen of them and uses none that has no second member, but each has a thread that looks for messages a
    hundred times a second: a fiftieth of a processor in all, and its caches.
    """
    make = distributed.new_group

    def group(*ranks: Any, **named: Any) -> Any:
        alone = distributed.get_world_size() == 1 and current_platform.is_cpu()
        return distributed.group.WORLD if alone else make(*ranks, **named)

    distributed.new_group = group
