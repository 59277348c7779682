"""What is wrong with what a user wrote."""


class ScenarioError(ValueError):
    """A scenario that cannot be run; the message names the file, the line and the key."""
