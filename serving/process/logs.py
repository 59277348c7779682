"""Log lines: a sentence with fields after it, or an object of JSON with the fields in it.

log.info("Device %d is lost.", 1, extra=fields(device=1))
"""

import datetime
import json
import logging
import math
import os
import sys
from typing import Any, TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
FIELDS = "foreserve_fields"
# vLLM writes an error for each request that names another model, with that name, however long.
REFUSING = (
    "openai.chat_completion.serving",
    "openai.chat_completion.batch_serving",
    "openai.responses.serving",
    "scale_out.token_in_token_out.serving",
    "scale_out.render.serving",
)
REFUSED = "Error with model"


def start_logging(form: str, level: str) -> None:
    """Log to stderr in a `form`: our lines from `level` on, others' from warnings on. Call it before importing vLLM,
    which would set up a log of its own."""
    handler = Stderr(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("foreserve").setLevel(level.upper())
    for module in REFUSING:
        logging.getLogger(f"vllm.entrypoints.{module}").addFilter(_is_of_the_server)
    if form == "json":
        os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
        logging.getLogger("vllm").setLevel(logging.ERROR)
        logging.captureWarnings(True)


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """Tell whether a record of vLLM's is of anything but a client's mistake, of which that client has been told."""
    return not str(record.msg).startswith(REFUSED)


class Stderr(logging.StreamHandler[TextIO]):
    """Lines for which there is no room, or nobody to read them, are lost, and nothing else: when there is room again,
    how many they were is said."""

    lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self.lost:
            try:
                self.stream.write(f"{self.lost} lines before this one could not be written.\n")
                self.stream.flush()
            except OSError:
                self.lost += 1
                return
            self.lost = 0
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        if isinstance(sys.exc_info()[1], OSError):
            self.lost += 1
        else:
            super().handleError(record)


def fields(**said: Any) -> dict[str, Any]:
    """Return `extra` for a log line's fields, under a name of their own, as Ray and vLLM add attributes to each
    record."""
    return {FIELDS: said}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return a log record's fields, without empty ones and numbers that JSON can't write."""
    return {name: value for name, value in getattr(record, FIELDS, {}).items() if _is_told(value)}


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO Device 1 is lost. device=1`"""

    def format(self, record: logging.LogRecord) -> str:
        said = "".join(f" {name}={_shown(value)}" for name, value in fields_of(record).items())
        line = f"{_instant(record)} {record.levelname} {record.getMessage()}{said}"
        return line + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


class JsonFormatter(logging.Formatter):
    """An object a line: `timestamp`, `level`, `logger`, `message`, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "timestamp": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said | fields_of(record), default=str)


def _instant(record: logging.LogRecord) -> str:
    at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_told(value: Any) -> bool:
    return value is not None and value != "" and not (isinstance(value, float) and not math.isfinite(value))


def _shown(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return json.dumps(text) if any(c.isspace() or c in '"=' for c in text) else text
