"""The error of a wrong scenario."""

from serving.usage_error import UsageError


class ScenarioError(UsageError):
    """A scenario that cannot be run; the message names the file, the line and the key."""
