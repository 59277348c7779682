"""Figures for people: what each is called, in which unit, with as many decimals as help."""

from collections.abc import Iterable
from math import floor, isfinite, log10
from typing import Any, NamedTuple

from serving.study.measures.percentiles import percentile_of
from serving.study.point import shown

NONE = "-"
WORDS = {
    "offered_per_s": "offered load",
    "served_per_s": "served",
    "attainment": "SLO attainment",
    "ttft_attainment": "within TTFT",
    "tpot_attainment": "within TPOT",
    "goodput_per_s": "goodput",
    "tokens_per_s": "output",
    "j_per_token": "energy",
    "step_j_per_token": "energy of steps",
    "joules": "energy",
    "power_w": "power",
    "batch_mean": "batch",
    "sd_share": "SD",
    "busy_share": "busy",
    "hit_rate": "expert hits",
    "cached_share": "prefix hits",
    "cost_per_hour": "cost an hour",
    "cost_per_million_tokens": "cost of a million tokens",
    "cost_per_user_month": "cost of a user a month",
}
NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "itl": "between tokens", "queue": "in queue"}
SHARES = ("attainment", "share", "hit_rate")
LESS_IS_BETTER = (
    "ttft_m",
    "ttft_p",
    "tpot_m",
    "tpot_p",
    "e2e_",
    "queue_",
    "itl_",
    "j_per_token",
    "power_w",
    "joules",
    "cost_",
)


class Scale(NamedTuple):
    """The unit and format of a figure's values."""

    unit: str
    factor: float
    decimals: int

    def number(self, value: float | None) -> str:
        """Without its unit, as in a table."""
        known = value is not None and isfinite(value)
        return f"{value * self.factor:.{self.decimals}f}" if known and value is not None else NONE

    def text(self, value: float | None) -> str:
        """With its unit, as in a sentence."""
        return f"{self.number(value)} {self.unit}".strip()


def words(name: str) -> str:
    """Return a figure's name in words."""
    if name in WORDS:
        return WORDS[name]
    if percentile := percentile_of(name):
        return percentile.title
    first, *others = name.removesuffix("_s").split("_")
    return " ".join([NAMES.get(first, first), *others])


def less_is_better(name: str) -> bool:
    """Tell whether a figure should be low."""
    return name.startswith(LESS_IS_BETTER) or name.endswith("j_per_token")


def scale(name: str, values: Iterable[float | None]) -> Scale:
    """Return one unit for all values of a figure, small enough for the largest to be told from 0."""
    known = [abs(value) for value in values if value is not None and isfinite(value) and value]
    most = max(known, default=1.0)
    unit, factor = _unit(name, most)
    if unit == "%":
        return Scale(unit, factor, 1)
    whole = all(isinstance(value, int) for value in known)
    return Scale(unit, factor, 0 if whole and factor == 1 else _decimals([value * factor for value in known]))


def setting(name: str, value: Any) -> str:
    """Return a setting of a combination in few words: `elmoe3d-8gb`, but `tau 6`."""
    text = shown(value)
    if isinstance(value, bool):
        text = text.lower()
    if isinstance(value, str) and value and not value.replace(".", "").isdigit():
        return text
    return f"{short(name)} {text}".strip()


def short(name: str) -> str:
    """Return a setting's name, without what is the same for all of the workload's."""
    return name.removeprefix("workload.")


def seconds(value: float) -> str:
    """Return a time in its own unit: 50 ms, 1.5 s."""
    return f"{value * 1000:g} ms" if value < 1 else f"{value:g} s"


def share(value: float) -> str:
    """95 %."""
    return f"{value * 100:.4g} %"


def times(value: float) -> str:
    """Format a multiple: near 1, thousandths count."""
    return f"{value:.{3 if value < 2 else 2 if value < 10 else 0}f}"


def bound(name: str, value: float) -> str:
    """Return a figure that somebody has set, as they have: 50 ms."""
    of = scale(name, [value])
    if of.unit in ("ms", "s"):
        return seconds(value)
    return f"{value * of.factor:.6g} {of.unit}".strip()


def listed(texts: Iterable[str]) -> str:
    """Return texts as a list: a, b and c."""
    *most, last = list(texts) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _unit(name: str, most: float) -> tuple[str, float]:
    if name.endswith(SHARES):
        return "%", 100.0
    if name.endswith("_per_s"):
        return ("tokens/s" if name.startswith("tokens") else "req/s"), 1.0
    if name.endswith("j_per_token"):
        return ("mJ/token", 1e3) if most < 1 else ("J/token", 1.0)
    if name == "power_w":
        return "W", 1.0
    if name.endswith("joules"):
        return ("J", 1.0) if most < 1e4 else ("kJ", 1e-3)
    if name.endswith("_s"):
        return ("ms", 1e3) if most < 2 else ("s", 1.0)
    return "", 1.0


def _decimals(values: list[float]) -> int:
    """Three digits of the largest; one more where the smallest would be lost."""
    if not values:
        return 0
    of_most = 2 - floor(log10(max(values)))
    of_least = 1 - floor(log10(min(values)))
    return max(0, min(max(of_most, min(of_least, of_most + 1)), 4))
