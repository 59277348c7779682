"""Distributions of lengths in tokens and of times in seconds: as a workload file writes them, and drawn in bulk."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from serving.toml_table import AT_LEAST_0, COUNT, LARGEST, POSITIVE, AllowedNumber, TomlTable

Values = NDArray[np.float64]
# Tokens, more than any model holds; turns of a session, or calls before an answer, of which each is drawn at once.
MOST, MOST_TURNS = 2**24, 10_000
TOKENS = AllowedNumber(f"{COUNT.words}, and of at most {MOST}", lambda value: COUNT.ok(value) and value <= MOST)
TURNS = AllowedNumber(
    f"{COUNT.words}, and of at most {MOST_TURNS}", lambda value: COUNT.ok(value) and value <= MOST_TURNS
)
CV = AllowedNumber("a number of at least 0, and of at most 1000", lambda value: 0 <= value <= 1000)
Sampler = Callable[[np.random.Generator, int], Values]


@dataclass(frozen=True, slots=True)
class Distribution:
    """Draws from `sample`, clipped to `low` and `high`."""

    sample: Sampler
    low: float = 0.0
    high: float = float("inf")

    def draw(self, rng: np.random.Generator, count: int) -> Values:
        """Return `count` values."""
        return np.clip(self.sample(rng, count), self.low, self.high)

    def whole(self, rng: np.random.Generator, count: int, most: int = MOST) -> NDArray[np.int64]:
        """Return `count` whole numbers from 1 to `most`: more tokens than MOST no model holds."""
        values: NDArray[np.int64] = np.clip(np.rint(self.draw(rng, count)), 1, most).astype(np.int64)
        return values


def always(value: float) -> Distribution:
    """Return a distribution of a single value."""
    return Distribution(lambda rng, count: np.full(count, value))


def distribution(table: TomlTable, key: str, least: AllowedNumber, default: Distribution | None = None) -> Distribution:
    """Return the distribution at a key: a number is that number every time. `least` is what its values may be."""
    value = table.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, dict):
        return always(table.checked(key, value, least._replace(words=f"{least.words}, or a table with a `kind`")))
    below = table.below(key, value)
    found = KINDS[below.word("kind", KINDS)](below, least)
    below.end()
    return found


def _constant(table: TomlTable, least: AllowedNumber) -> Distribution:
    return always(table.number("value", least))


def _uniform(table: TomlTable, least: AllowedNumber) -> Distribution:
    low = table.number("min", least)
    high = table.number("max", _from(low))
    # Half a token more on either side, so that of whole numbers the first and the last are as likely as the others.
    edge = 0.0 if least is AT_LEAST_0 else 0.5
    return Distribution(lambda rng, count: rng.uniform(low - edge, high + edge, count), low, high)


def _normal(table: TomlTable, least: AllowedNumber) -> Distribution:
    mean, cv = table.number("mean", POSITIVE), table.number("cv", CV)
    return _bounded(table, lambda rng, count: rng.normal(mean, cv * mean, count))


def _lognormal(table: TomlTable, least: AllowedNumber) -> Distribution:
    mean, cv = table.number("mean", POSITIVE), table.number("cv", CV)
    variance = log1p(cv * cv)
    mu, sigma = np.log(mean) - variance / 2, sqrt(variance)
    return _bounded(table, lambda rng, count: rng.lognormal(mu, sigma, count))


def _exponential(table: TomlTable, least: AllowedNumber) -> Distribution:
    mean = table.number("mean", POSITIVE)
    return _bounded(table, lambda rng, count: rng.exponential(mean, count))


def _empirical(table: TomlTable, least: AllowedNumber) -> Distribution:
    values = _numbers(table, "values", least)
    shares = _numbers(table, "shares", AT_LEAST_0) if "shares" in table else np.ones(len(values))
    table.get("shares")
    if len(shares) != len(values):
        raise table.error("shares", f"has {len(shares)} numbers: it must have one for each of {len(values)} values.")
    if shares.sum() <= 0:
        raise table.error("shares", "are all 0: at least one of the values must have a share.")
    return _one_of(values, shares / shares.sum())


def _file(table: TomlTable, least: AllowedNumber) -> Distribution:
    path = table.file("file")
    try:
        values = np.loadtxt(path, dtype=np.float64, ndmin=1)
    except (OSError, ValueError) as error:
        raise table.error("file", f"is {path}: it must have one number in each line ({error}).") from error
    listed = values.ravel().tolist()
    if values.ndim != 1 or not listed or not all(isfinite(value) and least.ok(value) for value in listed):
        raise table.error("file", f"is {path}: it must have one number in each line, {least.words}.")
    return _one_of(values, None)


KINDS: dict[str, Callable[[TomlTable, AllowedNumber], Distribution]] = {
    "constant": _constant,
    "uniform": _uniform,
    "normal": _normal,
    "lognormal": _lognormal,
    "exponential": _exponential,
    "empirical": _empirical,
    "file": _file,
}


def _bounded(table: TomlTable, sample: Sampler) -> Distribution:
    low = table.number("min", AT_LEAST_0, 0.0)
    return Distribution(sample, low, table.number("max", _from(low), LARGEST))


def _from(low: float) -> AllowedNumber:
    words = f"a number of at least {low:g}, which is `min`, and of at most {LARGEST:g}"
    return AllowedNumber(words, lambda value: low <= value <= LARGEST)


def _one_of(values: Values, shares: Values | None) -> Distribution:
    if shares is None:
        return Distribution(lambda rng, count: values[rng.integers(len(values), size=count)])
    up_to = np.cumsum(shares)[:-1]
    return Distribution(lambda rng, count: values[np.searchsorted(up_to, rng.random(count), side="right")])


def _numbers(table: TomlTable, key: str, allowed: AllowedNumber) -> Values:
    listed = table.get(key)
    if not isinstance(listed, list) or not listed:
        raise table.wrong(key, listed, "a list of numbers")
    return np.array([table.checked(key, value, allowed) for value in listed])
