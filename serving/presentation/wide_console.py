"""A console for tables, as wide as the terminal is."""

from rich.console import Console

LEAST = 40
UNCUT = 200


def wide_console() -> Console:
    """Return a console on stdout. In a terminal that is narrow, tables are shown in parts; where it has fewer than
    `LEAST` characters, lines go on in the next one, and no figure is cut. Where nobody's window says how wide it is, as
    in a pipe, it has `UNCUT`."""
    console = Console(highlight=False)
    console.width = max(console.width, LEAST) if console.is_terminal else UNCUT
    return console
