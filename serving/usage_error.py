"""What a user asked for and can't have."""


class UsageError(ValueError):
    """One sentence for whoever asked: what is wrong, where (file, line, field, option), and what is allowed. A command
    ends with exit code 2; what the device model says can't be is a `DeviceError` of its own instead."""
