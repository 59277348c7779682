"""The report of a run: a table for people, JSON for everything else."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from rich.console import Console
from rich.text import Text

from serving.host_pace import AT_ONCE
from serving.load.client import RequestTimes
from serving.load.emulator import Fidelity
from serving.load.latencies import seen_s
from serving.load.options import Slos
from serving.load.summary import Goodput, Quantiles, Summary
from serving.load.tails import FAMILIES, SHOWN, ModelledLatency, TailRefusal, attainment_refusal, percentile_refusals
from serving.presentation.table import Table

LAG_WORTH_SAYING_S = 0.005  # A client whose p99 is later than this was short of processor itself.
MUCH_CACHED = 0.01  # Share of the prompts' tokens from which on it is said that caches had them.
FEW_UNDERRUNS = 0.001  # Share of the tokens up to which late ones are counted, and no more is said.
CLASS_LATENCIES = ("ttft", "tpot")
MARKED = "What has a ? is this host's, longer than it can have been on the devices."
# What isn't known, rather than 0, if an emulator's counts before and after the run can't be compared.
COUNTS = (
    "underruns",
    "underrun_share",
    "released_tokens",
    "recorded_tokens",
    "recorded_share",
    "cached_share",
    "energy_j",
)
COALESCED = 1.01  # Mean tokens per chunk above which the report mentions them.


@dataclass(frozen=True, slots=True)
class Report:
    """A run's figures, the emulator's fidelity, and the verdict on the SLOs unless it is refused."""

    url: str
    model: str
    summary: Summary
    goodput: Goodput | None
    slos: Slos
    fidelity: Fidelity | None  # None: not our emulator.
    interrupted: bool = False
    classes: dict[str, Summary] = field(default_factory=dict)  # By SLO class, if requests named any.
    broken: str | None = None  # Why the workload broke off; None if it did not.
    all_times: Sequence[RequestTimes] = ()  # Of each request, in the order of sending.

    @property
    def refused(self) -> str | None:
        """The reason why there is no SLO verdict; None if there is one."""
        if self.fidelity is None:
            return None
        attained = self.attainment_refused
        return self.fidelity.refusal() or (f"{attained.sentence}. {self._slower([attained])}" if attained else None)

    @property
    def attainment_refused(self) -> TailRefusal | None:
        """The first of the limits that more requests kept on the devices than clients saw; None if there is none."""
        for limit, limit_s in self.slos.given().items():
            name = limit.removesuffix("_s")
            modelled, seen = self._modelled.get(name), self._seen_s(name, self.all_times)
            if modelled and (found := attainment_refusal(name.upper(), modelled, limit_s, seen)):
                return found
        return None

    @property
    def doubted(self) -> dict[str, dict[float, TailRefusal]]:
        """The latencies with quantiles, of those shown, that say nothing of the devices, and why."""
        found = {}
        for name, modelled in self._modelled.items():
            if refusals := percentile_refusals(name.upper(), modelled, self._seen_s(name, self.all_times)):
                found[name] = refusals
        return found

    @property
    def doubted_classes(self) -> dict[tuple[str, str], TailRefusal]:
        """The SLO classes and latencies whose p99 says nothing of the devices, even if their requests were the slowest
        of all there, and why."""
        found = {}
        for slo, name in product(self.classes, CLASS_LATENCIES):
            if modelled := self._modelled.get(name):
                called = f"{name.upper()} of {slo or 'requests without a class'}"
                seen = self._seen_s(name, [times for times in self.all_times if times.slo == slo])
                if refusal := percentile_refusals(called, modelled, seen, len(seen)).get(0.99):
                    found[slo, name] = refusal
        return found

    def _seen_s(self, name: str, all_times: Sequence[RequestTimes]) -> list[float]:
        return seen_s(name, all_times, self.fidelity.speed if self.fidelity else 1.0)

    @property
    def _modelled(self) -> Mapping[str, ModelledLatency]:
        """The devices' latencies that are those of clients, but for the host's part."""
        modelled = self.fidelity.modelled if self.fidelity else {}
        # Of a call, clients get nothing before the server has read its name: only its end is when the last token comes.
        # Of what was broken off, devices count an end too, and clients have none.
        cut = any(times.error and times.outputs_s for times in self.all_times)
        ends, others = not (self.summary.cancelled or cut), not self.summary.calls_asked
        return {name: found for name, found in modelled.items() if (ends if name == "e2e" else others)}

    def _slower(self, tails: Collection[TailRefusal]) -> str:
        """Say at which speed the host should keep up with tails: of a lower one its busy moments are fewer, too."""
        assert self.fidelity is not None
        return self.fidelity.slower(min(AT_ONCE, max(tail.times for tail in tails)))

    @property
    def failure(self) -> str | None:
        """The reason why the run failed, a sentence; None if any request completed, or Ctrl-C ended it."""
        if self.broken:
            return f"The workload broke off: {self.broken}"
        if self.summary.completed or self.interrupted:
            return None
        if self.unreachable:
            return f"Nothing answers at {self.url}: {self.summary.errors[0].message}."
        return "No request completed."

    @property
    def unreachable(self) -> bool:
        """Tell whether no request found a server."""
        errors = self.summary.errors
        return bool(errors) and all(error.status in ("connection", "UNAVAILABLE") for error in errors)

    @property
    def clock(self) -> str:
        """The clock of all latencies: `emulated`, or `real`."""
        return "emulated" if self.fidelity else "real"

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        s = self.summary
        latencies = {name: asdict(getattr(s, name)) for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s", "send_lag_s")}
        return {
            "url": self.url,
            "model": self.model,
            "clock": self.clock,
            "interrupted": self.interrupted,
            "broken": self.broken or None,
            **{name: getattr(s, name) for name in ("requests", "completed", "failed", "cancelled", "duration_s")},
            "errors": [asdict(error) for error in s.errors],
            "prompt_tokens": s.prompt_tokens,
            "output_tokens": s.output_tokens,
            "tokens_counted_by": "server" if s.counted_by_server else "chunks",
            "tokens_per_chunk": s.output_tokens / s.outputs if s.outputs else None,
            "tool_calls": {"asked": s.calls_asked, "made": s.calls_made} if s.calls_asked else None,
            "request_throughput_per_s": s.request_throughput_per_s,
            "output_tokens_per_s": s.output_tokens_per_s,
            **latencies,
            "goodput": self._goodput_json(),
            "slo_classes": {name: _class_json(summary) for name, summary in self.classes.items()},
            "emulator": self._emulator_json() if self.fidelity else None,
        }

    def _emulator_json(self) -> dict[str, Any]:
        assert self.fidelity is not None
        refused, doubts = dict[str, str | None](), self.doubted
        for name, quantile in product(FAMILIES, SHOWN):
            refusal = doubts.get(name, {}).get(quantile)
            refused[f"{name}_p{quantile * 100:g}_refused"] = refusal.sentence if refusal else None
        return _fidelity_json(self.fidelity) | refused

    def _goodput_json(self) -> dict[str, Any] | None:
        if not self.slos.given():
            return None
        if self.refused or self.goodput is None:
            none = {"per_s": None, "attainment": None, "slos": self.slos.given()}
            return none | {"refused": self.refused or "No SLO verdict: no request ended."}
        return asdict(self.goodput) | {"refused": None}

    def show(self, console: Console) -> None:
        """Print the report for people."""
        console.print(Text(self._title(), "bold"), soft_wrap=True)
        if self.summary.completed:
            console.print(self._latencies())
            if self.classes:
                console.print(self._by_class())
        for note in [*self._notes(), *self._pace(), *self._verdict()]:
            console.print(note, soft_wrap=True)

    def _latencies(self) -> Table:
        rows, doubts = [], self.doubted
        for name in ("ttft", "tpot", "itl", "e2e"):
            mean, *cells = _milliseconds(getattr(self.summary, f"{name}_s"))
            doubted = doubts.get(name, {})
            marked = [_marked(cell, quantile in doubted) for cell, quantile in zip(cells, SHOWN, strict=True)]
            rows.append([f"{name.upper()} (ms)", mean, *marked])
        return Table(["", "mean", "p50", "p90", "p99"], rows)

    def _by_class(self) -> Table:
        rows, doubted = [], self.doubted_classes
        for slo, s in self.classes.items():
            cells = []
            for name in CLASS_LATENCIES:
                mean, *_, p99 = _milliseconds(getattr(s, f"{name}_s"))
                cells += [mean, _marked(p99, (slo, name) in doubted)]
            rows.append([slo or "(none)", f"{s.completed} of {s.requests}", *cells])
        return Table(["SLO class", "completed", "TTFT mean", "p99", "TPOT mean", "p99 (ms)"], rows)

    def _title(self) -> str:
        if self.fidelity is None:
            return f"{self.model} at {self.url}"
        info, speed = self.fidelity.info, self.fidelity.speed
        what = f"{self.model} on {info.get('hardware') or info.get('scenario') or 'the device'} (emulated)"
        return f"{what}, in emulated seconds" + ("" if speed == 1 else f" (speed {speed:g})")

    def _notes(self) -> list[Text]:
        s = self.summary
        counted = "" if s.counted_by_server else " (chunks counted: the server sent no usage)"
        lines = [
            "",
            f"{s.completed} of {s.requests} requests completed in {s.duration_s:.4g} s: "
            f"{s.request_throughput_per_s:.4g} requests/s, {s.output_tokens_per_s:.5g} output tokens/s{counted}",
        ]
        if s.output_tokens > COALESCED * s.outputs:
            lines.append(f"{s.output_tokens / s.outputs:.3g} tokens came in a chunk on average; ITL shares its gap out")
        if s.calls_asked:
            lines.append(f"Tools: {s.calls_made} of {s.calls_asked} answers that were to call one did")
        if s.cancelled:
            lines.append(f"{s.cancelled} cancelled")
        lines += [f"{error.count} failed: {error.status}: {error.message}" for error in s.errors]
        if s.send_lag_s.p99 is not None and s.send_lag_s.p99 > LAG_WORTH_SAYING_S:
            lines.append(f"This client sent late: {s.send_lag_s.p99 * 1e3:.3g} ms at p99, which is in the latencies")
        return [Text(line) for line in lines]

    def _pace(self) -> list[Text]:
        f = self.fidelity
        if f is None and self.url.startswith("grpc"):
            return [Text("Its clock and pace are not known: it has no metrics of foreserve (--metrics-url names them)")]
        if f is None or f.broken or not self.summary.completed:
            return []
        late = "not known" if f.lateness_mean_s is None else f"{f.lateness_mean_s * 1e3:.3g} ms on average"
        share = "" if f.lateness_share is None else f", {f.lateness_share:.1%} of the modelled TTFT"
        pace = "" if f.pacing_share is None else f"; steps {f.pacing_share:.2%} late"
        lines = [Text(f"Emulator: tokens {late} late{share}{pace}; underruns: {f.underruns}")]
        if f.joules_per_token is not None:
            lines.append(Text(f"Modelled energy: {f.joules_per_token:.4g} J/token, of those released"))
        if f.recorded_tokens:
            lines.append(Text(f"Text: {f.recorded_share:.1%} of the tokens were recorded before (`serve --text`)"))
        if f.cached_share >= MUCH_CACHED:
            cached = f"Prompts: {f.cached_share:.1%} of their tokens were in KV caches, from an earlier turn or run"
            lines.append(Text(f"{cached} (another --seed makes other words)"))
        if f.underrun_share > FEW_UNDERRUNS:
            late = f"{f.underrun_share:.1%} of the tokens were not ready when the hardware would have sent them"
            lines.append(Text(f"Lost fidelity: {late}", "yellow"))
        return lines + self._tail_lines()

    def _tail_lines(self) -> list[Text]:
        doubted = self.doubted
        # Of a latency, what holds for its highest percentile says enough; of a class, only what all of them don't say.
        told = [refusals[max(refusals)] for refusals in doubted.values()]
        told += [each for (_, name), each in self.doubted_classes.items() if 0.99 not in doubted.get(name, {})]
        if not told:
            return []
        lines = [*(refusal.sentence for refusal in told), MARKED]
        return [Text(line, "yellow") for line in lines + ([] if self.refused else [self._slower(told)])]

    def _verdict(self) -> list[Text]:
        if self.refused and (self.summary.completed or self.slos.given()):
            return [Text(self.refused, "bold red")]
        if self.goodput is None:
            return []
        limits = ", ".join(f"{name[:-2].upper()} {limit * 1e3:g} ms" for name, limit in self.goodput.slos.items())
        share = f"{self.goodput.attainment:.1%} of requests"
        return [Text(f"Goodput: {self.goodput.per_s:.4g} requests/s, {share} within {limits}", "bold")]


def _marked(cell: str, doubted: bool) -> str:
    return f"{cell}?" if doubted else cell


def _milliseconds(quantiles: Quantiles) -> list[str]:
    values = (quantiles.mean, quantiles.p50, quantiles.p90, quantiles.p99)
    return ["-" if value is None else f"{value * 1e3:,.2f}" for value in values]


def _class_json(summary: Summary) -> dict[str, Any]:
    counts = {name: getattr(summary, name) for name in ("requests", "completed", "failed", "cancelled")}
    return counts | {name: asdict(getattr(summary, name)) for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s")}


def _fidelity_json(fidelity: Fidelity) -> dict[str, Any]:
    return {
        "info": dict(fidelity.info),
        "speed": fidelity.speed,
        "lateness_mean_s": fidelity.lateness_mean_s,
        "lateness_p99_s": fidelity.lateness_p99_s,
        "lateness_share": fidelity.lateness_share,
        "ttft_mean_s": fidelity.ttft_mean_s,
        "tpot_mean_s": fidelity.tpot_mean_s,
        "pacing_share": fidelity.pacing_share,
        "step_mean_s": fidelity.step_mean_s,
        "pacing_error_mean_s": fidelity.pacing_error_mean_s,
        **{name: None if fidelity.broken else getattr(fidelity, name) for name in COUNTS},
        "joules_per_token": fidelity.joules_per_token,
        "refused": fidelity.refusal(),
    }
