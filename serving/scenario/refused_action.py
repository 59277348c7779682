"""Refused actions of an operator on a device or fault: a sentence, and the status that HTTP has for it."""

from typing import ClassVar


class RefusedAction(ValueError):
    """An action that is impossible with a device as it is; the message is a sentence."""

    http_status: ClassVar[int] = 409


class UnknownTarget(RefusedAction):
    """An action on a device, or fault, that does not exist."""

    http_status = 404


class MalformedAction(RefusedAction):
    """A text that is not what it should be."""

    http_status = 400
