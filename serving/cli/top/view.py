"""`foreserve top`: a running emulation in the terminal: devices, modes, queues, SLOs, energy."""

import ssl
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from serving.cli.top.devices import clock, devices_table, ms, shown
from serving.cli.top.history import HistoryView
from serving.security.client_trust import SYSTEMS, Trust
from serving.telemetry.status import HostNow, SloNow, Status
from serving.telemetry.status_client import Unreachable, fetch, fetch_history
from serving.telemetry.status_delta import DeviceRates, StatusDeltas, attained
from serving.telemetry.status_history import EVERY_S, HistoryReader, StatusPoint


def top(url: str, interval_s: float, once: bool, api_key: str | None = None, trust: Trust = SYSTEMS) -> None:
    """Show the status until Ctrl-C, or `once`, after an interval. Raise Unreachable if it cannot be had at first."""
    console = Console()
    looks = Looks(url, api_key, trust.context() if url.startswith("https:") else True)
    first = looks.next()
    if once:
        time.sleep(interval_s)
        console.print(looks.next())
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
        yield broken(_head(self.status, self.rates, self.url), options.max_width)
        if self.status.host.too_slow:
            yield Padding(Text(self.status.host.too_slow, style="bold red"), (0, 1))
        yield devices_table(self.status, self.rates, options.max_width)
        if asked := [slo for slo in self.status.slos if slo.met + slo.missed + slo.rejected + slo.waiting]:
            yield _slos(asked)
        yield HistoryView(self.points)
        for parts in _foot(self.status):
            yield broken(parts, options.max_width)


def _head(status: Status, rates: dict[int, DeviceRates], url: str) -> list[Text]:
    about = status.about
    rate = sum(each.tokens_per_s for each in rates.values())
    power = sum(device.power_w for device in status.devices)
    step_w = sum(each.step_w for each in rates.values())
    figures = f"{rate:,.0f} tokens/s   {shown(step_w / rate if rate else None, '{:.3f}')} J/token   {power:.1f} W"
    return [
        Text(f" {about.get('model', '')} on {about.get('hardware', '')} ", style="bold reverse"),
        Text(f"{url}  up {clock(status.emulated_s)}  speed {about.get('speed', '?')}"),
        Text(figures, style="bold"),
    ]


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


def _foot(status: Status) -> Iterator[list[Text]]:
    """Yield the lines below, in parts."""
    topics = ", ".join(f"{topic} {count}" for topic, count in sorted(status.waiting.items()) if count) or "nobody"
    yield [Text(f" waiting by topic: {topics};"), Text(f"the oldest for {status.oldest_s:.1f} s")]
    latencies = (("TTFT", status.ttft), ("TPOT", status.tpot))
    yield [Text(f" {name} p50 {ms(each.p50_s)}, p99 {ms(each.p99_s)} ") for name, each in latencies]
    tokens, recorded = (sum(getattr(device, name) for device in status.devices) for name in ("tokens", "recorded"))
    parts = _pace(status.host) + ([f"{recorded / tokens:.0%} of the text recorded"] if recorded else [])
    ends = [";"] * (len(parts) - 1) + [""]
    yield [Text(f"{part}{end}", style="dim") for part, end in zip(parts, ends, strict=True)]


def _pace(host: HostNow) -> list[str]:
    """Tell how well the host keeps the devices' pace, in parts."""
    late = (
        f"late by {shown(host.lateness_share, '{:.1%}')} of the TTFT, by {shown(host.pacing_share, '{:.1%}')} of steps"
    )
    return [f" host, last {host.over_s:g} s: {late}", f"{host.underrun_share:.1%} of tokens not ready"]


def broken(parts: Sequence[Text], width: int) -> Text:
    """Return parts side by side, those that no longer fit into the width on a line of their own."""
    whole, taken = Text(), 0
    for part in parts:
        fits = not taken or taken + 1 + part.cell_len <= width
        whole.append("" if not taken else " " if fits else "\n ").append_text(part)
        taken = (taken if fits else 0) + 1 + part.cell_len
    return whole
