"""Logs without stack dumps of requests that were given up: their clients are told, and the log of requests is."""

import logging

from vllm.entrypoints.openai.chat_completion import serving as chat
from vllm.entrypoints.openai.completion import serving as completion
from vllm.entrypoints.scale_out.token_in_token_out import serving as tokens

from serving.edge.refusals import GivenUp


def be_quiet_about_failures() -> None:
    """Have vLLM's streams, which log whatever ends them with its stack, leave requests out that were given up."""
    for module in (chat, completion, tokens):
        logging.getLogger(module.__name__).addFilter(_is_a_fault)


def _is_a_fault(record: logging.LogRecord) -> bool:
    """Tell whether a record is of an error that nobody has foreseen."""
    return record.exc_info is None or not isinstance(record.exc_info[1], GivenUp)
