"""The file by which vLLM's processes meet, kept in the run's folder and removed with it."""

from pathlib import Path
from uuid import uuid4

from vllm.v1.executor import uniproc_executor


def meet_in(folder: Path) -> None:
    """Have this process's engine put the file by which its workers meet into the folder of a run.

    vLLM would leave it among the temporary files, where nobody removes it.
    """
    uniproc_executor.get_file_store_init_method = lambda: f"file://{folder}/rendezvous-{uuid4().hex}"
