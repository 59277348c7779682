"""What cannot be done with devices, said in a sentence to whoever asked for it."""


class Refused(ValueError):
    """Something that cannot be done with a device as it is; the message is a sentence."""


class Unknown(Refused):
    """There is no such device, or fault."""


class Malformed(Refused):
    """A text that is not what it should be."""
