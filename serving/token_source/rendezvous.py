"""Where vLLM's processes meet: a file that goes with the run."""

import os
from uuid import uuid4

from vllm.v1.executor import uniproc_executor

from serving.process.guard import MARK


def meet_in_run_folder() -> None:
    """Have the engine of this process, if it is of a run, put into the run's folder the file by which its workers
    meet: nobody removes the one that vLLM would leave among the temporary files."""
    if folder := os.environ.get(MARK):
        uniproc_executor.get_file_store_init_method = lambda: f"file://{folder}/rendezvous-{uuid4().hex}"
