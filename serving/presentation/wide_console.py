"""A terminal that is wide enough for tables."""

from rich.console import Console

TABLES = 150
UNCUT = 200


def wide_console() -> Console:
    """Return a console on stdout of at least `TABLES` characters: where there are fewer, lines go on in the next one,
    and no figure is cut. Where nobody's window says how wide it is, as in a pipe, it has `UNCUT`."""
    console = Console(highlight=False)
    console.width = max(console.width, TABLES) if console.is_terminal else UNCUT
    return console
