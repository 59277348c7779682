"""Cost of a node: what it is bought for, over the years that it is used, and what it draws, per token and per user."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from serving.nearest_name import meant
from serving.scenario.fleet import Member, located
from serving.toml_table import AT_LEAST_0, POSITIVE, TomlTable

OF_USERS = "cost_per_user_month"
HOURS_PER_YEAR, HOURS_PER_MONTH = 8_766.0, 730.5
COLUMNS = {
    "cost_per_hour": "of the node and what it draws, in the currency of `[cost]`",
    "cost_per_million_tokens": "the same, of as many output tokens",
    OF_USERS: "the same, of a user of a closed loop in a month",
}
"""What each figure of cost is. Only a study with a table `[cost]` has them."""
Prices = float | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Cost:
    """Prices in `currency`: of a node, of a device in it (or of each hardware by name), written off evenly over `years`
    without interest, and of a kWh; the node draws `watts` beside its devices."""

    currency: str
    node_price: float
    device_price: Prices
    years: float
    watts: float
    kwh_price: float

    @classmethod
    def of(cls, table: TomlTable) -> "Cost | None":
        """Parse the table `[cost]` of a study's file; None if there is none. Raise `StudyError`."""
        below = table.table("cost")
        if below is None:
            return None
        currency = below.get("currency", "EUR")
        if not isinstance(currency, str) or not currency:
            raise below.wrong("currency", currency, "a word")
        found = cls(
            currency,
            below.number("node_price", AT_LEAST_0, 0.0),
            _prices(below),
            below.number("years", POSITIVE, 3.0),
            below.number("watts", AT_LEAST_0, 0.0),
            below.number("kwh_price", AT_LEAST_0, 0.0),
        )
        below.end()
        if not (found.node_price or any(found.device_prices.values()) or found.kwh_price):
            raise table.error("cost", "says no price: `node_price`, `device_price` or `kwh_price` must be above 0.")
        return found

    def check(self, table: TomlTable, hardware: Collection[str]) -> None:
        """Raise `StudyError` unless prices by name are those of this `hardware`, which runs have, and of no other;
        `table` is the whole file."""
        if not isinstance(self.device_price, Mapping):
            return
        below = table.below("cost", table.values["cost"])
        prices = below.below("device_price", below.values["device_price"])
        allowed = ", ".join(hardware)
        for name in prices.values:
            if located(name) not in hardware:
                hint = meant(name, hardware)
                raise prices.error(name, f"is a price of hardware that no run has{hint}; allowed are {allowed}.")
        for name in hardware:
            if name not in self.device_price:
                sentence = f"has no price of {name}: it must have one of all that runs have (or 0), {allowed}."
                raise below.error("device_price", sentence)

    def figures(self, row: Mapping[str, Any], members: tuple[Member, ...], users: int | None) -> dict[str, float]:
        """Return the figures of cost of a run: `row` has its power (W) and tokens per second."""
        price = self.node_price + sum(self._device_price(member.hardware) for member in members)
        drawn = (row["power_w"] + self.watts) / 1000 * self.kwh_price
        per_hour = price / (self.years * HOURS_PER_YEAR) + drawn
        tokens = row["tokens_per_s"] * 3600
        found = {"cost_per_hour": per_hour}
        if tokens:
            found["cost_per_million_tokens"] = per_hour / tokens * 1e6
        if users:
            found[OF_USERS] = per_hour * HOURS_PER_MONTH / users
        return found

    def _device_price(self, hardware: str) -> float:
        return self.device_price[hardware] if isinstance(self.device_price, Mapping) else self.device_price

    @property
    def device_prices(self) -> Mapping[str, float]:
        """Return the prices of devices, by what they are of."""
        return self.device_price if isinstance(self.device_price, Mapping) else {"device": self.device_price}

    def __str__(self) -> str:
        node = f"{self.node_price:,.12g} for a node" if self.node_price else ""
        devices = [f"{price:,.12g} for each {name}" for name, price in self.device_prices.items() if price]
        bought = [*([node] if node else []), *devices]
        over = f" over {self.years:g} years" if bought else ""
        drawn = f"{self.kwh_price:g} a kWh of what devices draw" + (f" and {self.watts:g} W more" if self.watts else "")
        parts = [*([", ".join(bought) + over] if bought else []), *([drawn] if self.kwh_price else [])]
        return f"Costs are in {self.currency}: {'; '.join(parts)}."


def _prices(table: TomlTable) -> Prices:
    """Return the price of a device: a number, or one for each hardware."""
    if not isinstance(table.get("device_price"), dict):
        return table.number("device_price", AT_LEAST_0, 0.0)
    below = table.table("device_price")
    assert below is not None
    return {located(name): below.number(name, AT_LEAST_0) for name in below.values}
