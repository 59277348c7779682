"""The table of devices of `foreserve top`, as wide as the terminal, and how its figures are written."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from serving.telemetry.status import DeviceNow, Status
from serving.telemetry.status_delta import DeviceRates

BLOCKS = " ▏▎▍▌▋▊▉█"
BAR = 8  # characters
MODE_STYLE = {"ar": "white on blue", "sd": "black on yellow"}
STATE_STYLE = {"serving": "green", "draining": "yellow", "starting": "yellow", "lost": "bold red"}


class Column(NamedTuple):
    """A column of the table of devices, shown in terminals of at least `least` characters. Of those that don't fit the
    one with the most `spare` goes first (0: none of them); one that `folds` breaks its lines between words."""

    name: str
    cell: Callable[[DeviceNow, DeviceRates], Text | str]
    least: int = 0
    justify: Literal["left", "right"] = "right"
    spare: int = 0
    folds: bool = False


COLUMNS = (
    Column("device", lambda device, _: f"{device.index} {device.hardware}", justify="left"),
    Column("state", lambda device, _: Text(device.state, STATE_STYLE.get(device.state, "")), 100, "left", spare=6),
    Column("mode", lambda device, _: _mode(device), justify="left"),
    Column("batch", lambda device, _: str(device.batch)),
    Column("queue", lambda device, _: str(device.waiting)),
    Column("tokens/s", lambda _, rates: f"{rates.tokens_per_s:,.0f}"),
    Column("J/token", lambda _, rates: shown(rates.j_per_token, "{:.3f}"), 90, spare=3),
    Column("SD", lambda _, rates: shown(rates.sd_share, "{:.0%}"), 110, spare=4),
    Column("accepted", lambda _, rates: shown(rates.acceptance, "{:.0%}"), 80, spare=5),
    Column("hits", lambda device, _: f"{device.hit_share:.0%}", spare=1),
    Column("busy", lambda device, _: bar(device.busy_share), 140, "left", spare=8),
    Column("slow tier", lambda device, _: f"{bar(device.ext_share)} {device.tiers[1]}", 130, "left", spare=7),
    Column("KV", lambda device, _: f"{device.kv_share:.0%}", spare=2),
    Column("W", lambda device, _: f"{device.power_w:.1f}"),
    Column("faults", lambda device, _: Text(", ".join(device.faults), "bold red"), justify="left", folds=True),
)


def devices_table(status: Status, rates: dict[int, DeviceRates], width: int) -> Table:
    """Return the table of devices with the columns that fit into the width, whole."""
    columns = [column for column in COLUMNS if column.least <= width]
    rows = [[column.cell(device, rates[device.index]) for column in columns] for device in status.devices]
    widths = [_width(column, [row[place] for row in rows]) for place, column in enumerate(columns)]
    kept = list(range(len(columns)))
    while sum(widths[place] for place in kept) > width and any(columns[place].spare for place in kept):
        kept.remove(max(kept, key=lambda place: columns[place].spare))
    table = Table(box=None, header_style="dim", pad_edge=True)
    for column in (columns[place] for place in kept):
        table.add_column(column.name, justify=column.justify, no_wrap=not column.folds)
    for row in rows:
        table.add_row(*(row[place] for place in kept))
    return table


def _width(column: Column, cells: Sequence[Text | str]) -> int:
    """Return the characters that a column takes, with a space on either side; of one that folds its longest word."""
    words = [column.name, *map(str, cells)]
    return 2 + max(cell_len(part) for word in words for part in (word.split() or [""] if column.folds else [word]))


def _mode(device: DeviceNow) -> Text:
    if not device.batch:
        return Text("idle", style="dim")
    return Text(f" {device.mode.upper()} ", style=MODE_STYLE.get(device.mode, ""))


def shown(value: float | None, pattern: str) -> str:
    """Return a figure by its pattern, or a dash where there is none."""
    return "-" if value is None else pattern.format(value)


def ms(seconds: float | None) -> str:
    """Return seconds as milliseconds, or a dash where there are none."""
    return "-" if seconds is None else f"{1000 * seconds:,.0f} ms"


def bar(share: float) -> str:
    """Return a share as a bar, with its percentage."""
    eighths = round(min(1.0, max(0.0, share)) * BAR * 8)
    full, rest = divmod(eighths, 8)
    return f"{'█' * full}{BLOCKS[rest] if rest else ''}".ljust(BAR) + f"{share:5.0%}"


def clock(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds."""
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"
