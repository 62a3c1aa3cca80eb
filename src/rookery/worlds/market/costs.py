"""What trading costs, by kind. A cost that a table does not name is an error, not a zero."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rookery.errors import OptionError

FROM_DATA = "data"  # the value of a cost that is a column of the bars
FROM_BROKER = "broker"  # of one that a broker's table says


@dataclass(frozen=True)
class Costs:
    """Rates by kind; 0.001 is 0.1 %.

    Attributes:
        name: Of the preset, or "own".
        fee: Part of the traded value, on each side; of crypto also one number per asset.
        half_spread: From the middle price to the price that is paid, as a part of it; "data": the column `spread`.
        slippage: The same, for the time between decision and fill.
        impact: How far a trade moves the price against itself, as a part of it, per 1,000,000 traded.
        swap_long: Interest per year on a long position that is held over night, as a part of its value.
        swap_short: The same for a short position.
        funding: What a long position pays per bar (of perpetuals: each time), and a short one receives; "data": the
            column `funding`.
        borrow: Interest per year on what is borrowed to be short.
        margin_call: A position is closed when the account is worth less than this part of it; of perpetuals, when its
            own margin is not more than that: the maintenance margin.
        maker_fee: Of perpetuals, and of orders inside the bar: the fee of an order that has waited at its price. If
            omitted, `fee`.
        liquidation_fee: Of perpetuals: what the exchange takes of a position that it closes by force.
    """

    name: str
    fee: float | Sequence[float]
    half_spread: float | str
    slippage: float
    impact: float
    swap_long: float | str
    swap_short: float | str
    funding: float | str
    borrow: float
    margin_call: float
    maker_fee: float | Sequence[float] | None = None
    liquidation_fee: float | None = None

    def number(self, kind: str) -> float:
        """A rate that is added to what the bars, or the broker's table, say: 0 for one that only they say."""
        value = getattr(self, kind)
        return 0.0 if value in (FROM_DATA, FROM_BROKER) else float(value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the bars that are costs."""
        wanted = (("spread", self.half_spread), ("funding", self.funding))
        return tuple(column for column, value in wanted if value == FROM_DATA)

    def describe(self) -> list[str]:
        """One text per kind, zeros too.

        >>> PRESETS["alpaca-crypto"].describe()[:3]
        ['fee 0.25 % of each trade', 'half spread 0.05 %', 'slippage 0 %']
        """
        further = []
        swap = f"swap {_percent(self.swap_long)} (long) and {_percent(self.swap_short)} (short) a year"
        if self.swap_long == FROM_BROKER:
            swap = f"swap {_percent(FROM_BROKER)}"
        if self.maker_fee is not None:
            further.append(f"fee {_each(self.maker_fee)} of orders that have waited")
        if self.liquidation_fee:
            further.append(f"liquidation {_percent(self.liquidation_fee)} of the position")
        return [
            f"fee {_each(self.fee)} of each trade",
            f"half spread {_percent(self.half_spread)}",
            f"slippage {_percent(self.slippage)}",
            f"impact {_percent(self.impact)} per 1,000,000 traded",
            swap,
            f"funding {_percent(self.funding)} {'each time' if self.liquidation_fee else 'a bar'}",
            f"borrowing {_percent(self.borrow)} a year",
            f"margin call at {_percent(self.margin_call)} of the position",
            *further,
        ]


KINDS = tuple(field.name for field in fields(Costs) if field.name != "name")
OPTIONAL = ("maker_fee", "liquidation_fee")
PRESETS = {
    costs.name: costs
    for costs in (
        # The taker's fee of the lowest tier; spot, so that there is nothing to borrow and nothing to roll over.
        Costs("alpaca-crypto", 0.0025, 0.0005, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        # 3 a side per 100,000 traded, 0.3 pips from the middle to either side; margin of 1:30, closed at half of it.
        Costs("ecn-forex", 0.00003, 0.00003, 0.00001, 0.00001, 0.025, 0.025, 0.0, 0.0, 1 / 60),
        # What many hand-written trainers assume.
        Costs("flat-fee-forex", 0.001, 0.0, 0.0, 0.00001, 0.0, 0.0, 0.0, 0.0, 1 / 60),
        # Of a small account at a large exchange; funding is per 8 hours, at the rate that its formula begins with.
        Costs("usdt-perpetuals", 0.0005, 0.0001, 0.0, 0.0, 0.0, 0.0, 0.0001, 0.0, 0.005, 0.0002, 0.0125),
        Costs("none", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, liquidation_fee=0.0),
    )
}


def find_costs(costs: str | Mapping[str, Any] | Costs) -> Costs:
    """A preset by name, or a table with a rate for each kind; a table with `preset` names only those that differ.

    >>> find_costs({"preset": "ecn-forex", "fee": 0.0002}).fee
    0.0002
    """
    if isinstance(costs, Costs):
        return costs
    if isinstance(costs, str):
        return _preset(costs)
    if not isinstance(costs, Mapping):
        raise OptionError(f"costs should be one of {', '.join(PRESETS)}, or a table of rates, got {costs!r}")
    unknown = [kind for kind in costs if kind not in (*KINDS, "preset", "name")]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), KINDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"costs: there is no kind {unknown[0]!r}{hint} (there are {', '.join(KINDS)})")
    rates = {kind: _rate(kind, value) for kind, value in costs.items() if kind not in ("preset", "name")}
    if "preset" in costs:
        base = _preset(costs["preset"])
        return replace(base, name=str(costs.get("name", f"{base.name}, changed")), **rates)
    missing = [kind for kind in KINDS if kind not in rates and kind not in OPTIONAL]
    if missing:
        raise OptionError(
            f"costs: {', '.join(missing)} not given; a cost is never silently zero: name every kind, or "
            'start from a preset, as in {"preset": "none", "fee": 0.001}'
        )
    return Costs(str(costs.get("name", "own")), **rates)


def _preset(name: Any) -> Costs:
    if name not in PRESETS:
        near = difflib.get_close_matches(str(name), PRESETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"costs: there is no preset {name!r}{hint} (there are {', '.join(PRESETS)})")
    return PRESETS[name]


def _rate(kind: str, value: Any) -> Any:
    if kind in ("half_spread", "funding") and value == FROM_DATA:
        return value
    if kind in ("fee", "maker_fee") and isinstance(value, (list, tuple)):
        return tuple(_rate("fee of an asset", one) for one in value)
    # What one pays, the other may receive; and some exchanges pay those whose orders wait.
    sign = kind in ("funding", "swap_long", "swap_short", "maker_fee")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (-1 if sign else 0) <= value < 1:
        raise OptionError(f"costs: {kind} should be a part of the value, such as 0.001 for 0.1 %, got {value!r}")
    return float(value)


def _each(fee: float | Sequence[float]) -> str:
    return _percent(fee) if isinstance(fee, (int, float)) else "/".join(map(_percent, fee))


def _percent(rate: Any) -> str:
    said = {FROM_DATA: "as the data say", FROM_BROKER: "as the broker's table says"}
    return said[rate] if isinstance(rate, str) else f"{100 * rate:.6g} %"
