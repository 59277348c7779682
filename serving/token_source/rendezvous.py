"""The file by which vLLM's processes meet, kept in the run's folder and removed with it."""

import os
from uuid import uuid4

from vllm.v1.executor import uniproc_executor

from serving.process.guard import MARK


def meet_in_run_folder() -> None:
    """Have this process's engine put the file by which its workers meet into the run's folder, if there is a run.

    vLLM would leave it among the temporary files, where nobody removes it.
    """
    if folder := os.environ.get(MARK):
        uniproc_executor.get_file_store_init_method = lambda: f"file://{folder}/rendezvous-{uuid4().hex}"
