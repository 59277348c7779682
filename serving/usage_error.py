"""The error of a wrong request by a user."""


class UsageError(ValueError):
    """One sentence for whoever asked: what is wrong, where (file, line, field, option), and what is allowed. A command
    ends with exit code 2; what the device model says can't be is a `DeviceError` of its own instead. `keys` are those
    at fault of what the user wrote, the likeliest first."""

    def __init__(self, sentence: str, *keys: str) -> None:
        super().__init__(sentence)
        self.keys = keys
