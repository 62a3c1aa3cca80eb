"""Kinds of synthetic markets: their symbols, prices, volatility and calendar."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rookery.errors import OptionError


@dataclass(frozen=True)
class Kind:
    """What a synthetic market is like: its usual symbols and first prices, yearly volatility, correlation, calendar."""

    prices: dict[str, float]
    volatility: float
    correlation: float
    calendar: str
    clustered: bool = True
    other: str = "ASSET"


KINDS = {
    "crypto": Kind(
        {"BTC/USD": 30_000.0, "ETH/USD": 2_000.0, "SOL/USD": 40.0, "LTC/USD": 80.0, "LINK/USD": 9.0, "UNI/USD": 6.0,
         "AVAX/USD": 18.0},
        volatility=0.7, correlation=0.6, calendar="24/7", other="COIN",
    ),
    "forex": Kind(
        {"EURUSD": 1.1, "GBPUSD": 1.27, "USDJPY": 140.0, "USDCHF": 0.9, "AUDUSD": 0.67, "USDCAD": 1.35, "NZDUSD": 0.61},
        volatility=0.08, correlation=0.4, calendar="forex", other="PAIR",
    ),
    "walk": Kind({}, volatility=0.3, correlation=0.0, calendar="24/7", clustered=False, other="WALK"),
}  # fmt: skip


def market_kind(kind: str, correlation: float | None, volatility: float | None) -> Kind:
    """A kind by its name, with another correlation or volatility if they are given."""
    if kind not in KINDS:
        raise OptionError(f"kind should be {', '.join(KINDS)}, got {kind!r}")
    facts = KINDS[kind]
    facts = replace(facts, correlation=facts.correlation if correlation is None else correlation)
    facts = replace(facts, volatility=facts.volatility if volatility is None else volatility)
    if not 0 <= facts.correlation < 1:
        raise OptionError(f"correlation should be >= 0 and < 1, got {facts.correlation}")
    if not 0 < facts.volatility <= 10:
        raise OptionError(f"volatility should be > 0 and <= 10 per year, got {facts.volatility}")
    return facts


def usual_symbols(facts: Kind, assets: int) -> tuple[str, ...]:
    """The kind's usual symbols, then numbered ones."""
    usual = list(facts.prices)[: max(assets, 0)]
    return (*usual, *(f"{facts.other}{number}" for number in range(len(usual) + 1, assets + 1)))
