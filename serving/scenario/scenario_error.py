"""The error of a wrong scenario."""

from device_model.specs.spec import DeviceError, UnknownName
from serving.usage_error import UsageError


class ScenarioError(UsageError):
    """A scenario that cannot be run; the message names the file, the line and the key."""

    @classmethod
    def of(cls, error: UsageError | DeviceError) -> "ScenarioError":
        """Return what is wrong with a scenario's devices, or another part of it, as wrong with the scenario."""
        keys = error.keys if isinstance(error, UsageError) else ()
        if isinstance(error, UnknownName):
            # A draft is called a draft scheme there.
            keys = (error.kind.partition(" ")[0],)
        return cls(str(error), *keys)
