"""Keys on the command line, taken out of what `ps` and Ray show of this process.

What is left is the moment until then, and the shell's history; so a warning says what to use instead.
"""

import sys

from serving.process.start_memory import Part, overwrite

SECRETS = ("--api-key", "--admin-key")
SHORTEST = len("--a")  # of what argparse takes for one of them, as long as it is clear
MASK = "*"


def secrets_in(arguments: list[str]) -> dict[int, int]:
    """Return the indices of arguments that have keys, with the character at which each key begins."""
    found = {}
    for place, argument in enumerate(arguments):
        option, equals, _ = argument.partition("=")
        if len(option) < SHORTEST or not any(secret.startswith(option) for secret in SECRETS):
            continue
        if equals:
            found[place] = len(option) + 1
        elif place + 1 < len(arguments):
            found[place + 1] = 0
    return found


def masked(arguments: list[str]) -> list[str]:
    """Return the arguments, with a mask as long as the key in the place of each key."""
    begins = secrets_in(arguments)
    return [
        argument[: begins[place]] + MASK * (len(argument) - begins[place]) if place in begins else argument
        for place, argument in enumerate(arguments)
    ]


def hide() -> None:
    """Mask the keys among this process's arguments, for everybody who looks at it from now on."""
    if not secrets_in(sys.argv):
        return
    sys.argv[:] = masked(sys.argv)
    sys.orig_argv[:] = masked(sys.orig_argv)
    # Where that can't be done, `ps` shows them; the warning has said so.
    overwrite(Part.CMDLINE, masked)
