"""`foreserve top`: a running emulation in the terminal: devices, modes, queues, SLOs, energy."""

import ssl
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from serving.cli.history_view import HistoryView
from serving.security.client_trust import SYSTEMS, Trust
from serving.telemetry.status import DeviceNow, HostNow, SloNow, Status
from serving.telemetry.status_client import Unreachable, fetch, fetch_history
from serving.telemetry.status_delta import DeviceRates, StatusDeltas, attained
from serving.telemetry.status_history import EVERY_S, HistoryReader, StatusPoint

BLOCKS = " ▏▎▍▌▋▊▉█"
BAR = 8  # characters
MODE_STYLE = {"ar": "white on blue", "sd": "black on yellow"}
STATE_STYLE = {"serving": "green", "draining": "yellow", "starting": "yellow", "lost": "bold red"}


def top(url: str, interval_s: float, once: bool, api_key: str | None = None, trust: Trust = SYSTEMS) -> None:
    """Show the status until Ctrl-C, or `once`, after an interval. Raise Unreachable if it cannot be had at first."""
    console = Console()
    looks = Looks(url, api_key, trust.context() if url.startswith("https:") else True)
    first = looks.next()
    if once:
        time.sleep(interval_s)
        console.print(looks.next_or_gone())
        return
    with Live(first, console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            live.update(looks.next_or_gone(), refresh=True)


class Looks:
    """Looks at a server, one after the other: the status each time, its history when there is more of it."""

    def __init__(self, url: str, api_key: str | None, verify: ssl.SSLContext | bool) -> None:
        self._ask = url, api_key, verify
        self._deltas, self._history, self._history_at_s = StatusDeltas(), HistoryReader(), 0.0

    def next(self) -> "TopView":
        """Return the view now. Raise Unreachable."""
        url, api_key, verify = self._ask
        status = fetch(url, api_key, verify)
        if time.monotonic() >= self._history_at_s:
            self._history.add(fetch_history(url, self._history.seen, api_key, verify))
            self._history_at_s = time.monotonic() + EVERY_S
        return TopView(status, self._deltas.since_last(status), url, list(self._history.points))

    def next_or_gone(self) -> "TopView | Text":
        """Return the view now, or why there is none."""
        try:
            return self.next()
        except Unreachable as gone:
            return Text(str(gone), style="bold red")


class TopView(NamedTuple):
    """The whole view: head, devices, SLO classes, history and foot."""

    status: Status
    rates: dict[int, DeviceRates]
    url: str
    points: Sequence[StatusPoint] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _head(self.status, self.rates, self.url)
        if self.status.host.too_slow:
            yield Text(f" {self.status.host.too_slow}", style="bold red")
        yield _devices(self.status, self.rates, options.max_width)
        if asked := [slo for slo in self.status.slos if slo.met + slo.missed + slo.rejected + slo.waiting]:
            yield _slos(asked)
        yield HistoryView(self.points)
        yield _foot(self.status)


def _head(status: Status, rates: dict[int, DeviceRates], url: str) -> Text:
    about = status.about
    rate = sum(each.tokens_per_s for each in rates.values())
    power = sum(device.power_w for device in status.devices)
    joules = sum((each.j_per_token or 0.0) * each.tokens_per_s for each in rates.values())
    line = Text()
    line.append(f" {about.get('model', '')} on {about.get('hardware', '')} ", style="bold reverse")
    line.append(f" {url}  up {clock(status.emulated_s)}  speed {about.get('speed', '?')}  ")
    line.append(
        f"{rate:,.0f} tokens/s   {shown(joules / rate if rate else None, '{:.3f}')} J/token   {power:.1f} W", "bold"
    )
    return line


class Column(NamedTuple):
    """A column of the table of devices, shown in terminals of at least `least` characters."""

    name: str
    cell: Callable[[DeviceNow, DeviceRates], Text | str]
    least: int = 0
    justify: Literal["left", "right"] = "right"


COLUMNS = (
    Column("device", lambda device, _: f"{device.index} {device.hardware}", justify="left"),
    Column("state", lambda device, _: Text(device.state, STATE_STYLE.get(device.state, "")), 100, "left"),
    Column("mode", lambda device, _: _mode(device), justify="left"),
    Column("batch", lambda device, _: str(device.batch)),
    Column("queue", lambda device, _: str(device.waiting)),
    Column("tokens/s", lambda _, rates: f"{rates.tokens_per_s:,.0f}"),
    Column("J/token", lambda _, rates: shown(rates.j_per_token, "{:.3f}"), 90),
    Column("SD", lambda _, rates: shown(rates.sd_share, "{:.0%}"), 110),
    Column("accepted", lambda _, rates: shown(rates.acceptance, "{:.0%}"), 80),
    Column("hits", lambda device, _: f"{device.hit_share:.0%}"),
    Column("busy", lambda device, _: bar(device.busy_share), 140, "left"),
    Column("slow tier", lambda device, _: f"{bar(device.ext_share)} {device.tiers[1]}", 130, "left"),
    Column("KV", lambda device, _: f"{device.kv_share:.0%}"),
    Column("W", lambda device, _: f"{device.power_w:.1f}"),
    Column("faults", lambda device, _: Text(", ".join(device.faults), "bold red"), justify="left"),
)


def _devices(status: Status, rates: dict[int, DeviceRates], width: int) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=True)
    columns = [column for column in COLUMNS if column.least <= width]
    for column in columns:
        table.add_column(column.name, justify=column.justify, no_wrap=True)
    for device in status.devices:
        table.add_row(*(column.cell(device, rates[device.index]) for column in columns))
    return table


def _mode(device: DeviceNow) -> Text:
    if not device.batch:
        return Text("idle", style="dim")
    return Text(f" {device.mode.upper()} ", style=MODE_STYLE.get(device.mode, ""))


def _slos(slos: Sequence[SloNow]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=True)
    for name in ("SLO class", "TTFT", "TPOT", "met", "missed", "turned away", "attained", "waiting"):
        table.add_column(name, justify="left" if name == "SLO class" else "right")
    for slo in slos:
        table.add_row(*_slo_row(slo))
    return table


def _slo_row(slo: SloNow) -> list[Text | str]:
    share = attained(slo)
    style = "" if share is None else "green" if share >= 0.99 else "yellow" if share >= 0.9 else "bold red"
    return [
        slo.name,
        shown(slo.ttft_s, "{:g} s"),
        shown(slo.tpot_s, "{:g} s"),
        str(slo.met),
        str(slo.missed),
        str(slo.rejected),
        Text(shown(share, "{:.1%}"), style=style),
        str(slo.waiting),
    ]


def _foot(status: Status) -> Text:
    topics = ", ".join(f"{topic} {count}" for topic, count in sorted(status.waiting.items()) if count) or "nobody"
    line = Text(f" waiting by topic: {topics}; the oldest for {status.oldest_s:.1f} s\n")
    for name, latency in (("TTFT", status.ttft), ("TPOT", status.tpot)):
        line.append(f" {name} p50 {ms(latency.p50_s)}, p99 {ms(latency.p99_s)}  ")
    tokens, recorded = (sum(getattr(device, name) for device in status.devices) for name in ("tokens", "recorded"))
    text = f"; {recorded / tokens:.0%} of the text recorded" if recorded else ""
    line.append(f"\n host, last {status.host.over_s:g} s: {_pace(status.host)}{text}", style="dim")
    return line


def _pace(host: HostNow) -> str:
    """Tell how well the host keeps the devices' pace."""
    late = (
        f"late by {shown(host.lateness_share, '{:.1%}')} of the TTFT, by {shown(host.pacing_share, '{:.1%}')} of steps"
    )
    return f"{late}; {host.underrun_share:.1%} of tokens not ready"


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
