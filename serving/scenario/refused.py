"""Refusals of an operator's action on a device or fault, as a sentence."""


class Refused(ValueError):
    """An action that is impossible with a device as it is; the message is a sentence."""


class Unknown(Refused):
    """An action on a device, or fault, that does not exist."""


class Malformed(Refused):
    """A text that is not what it should be."""
