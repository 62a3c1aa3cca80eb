"""Rows of the market worlds' table: what would be found if a world cheated. The tests in tests/worlds/market show that
each of them can fail."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from engine_rows import Row
from worlds.market import test_forex_accounting, test_perpetual_accounting
from worlds.market.accounts import CASES as ACCOUNTS
from worlds.market.accounts import worst_difference
from worlds.market.conservation import OPTIONS, balanced
from worlds.market.future import CASES as FUTURES
from worlds.market.future import COMMON, FutureGuard, bars
from worlds.market.learning import oracle_bars, p_value_of_gains, trained, walk_bars

WALK_SEEDS = 20


def future_rows(rounds: int, quick: bool) -> list[Row]:
    """Other bars after a step, at random steps of random episodes."""
    tries, found = 3 if quick else 25, 0
    for world, symbols, options in FUTURES.values():
        make = lambda data, world=world, options=options: world(data=data, **{**COMMON, **options})  # noqa: E731
        guard = FutureGuard(make, bars(symbols))
        for seed in range(tries):
            found += bool(guard.leaks(seed, int(np.random.default_rng(seed).integers(0, 30))))
    what = f"future: episodes of {tries * len(FUTURES)} that later bars change"
    return [Row(what, "", "", float(found), 0, "", most=True)]


def oracle_rows(rounds: int, quick: bool) -> list[Row]:
    """PPO that is shown the next return must get rich, on bars that it was not trained on."""
    rows = []
    for world, steps, least in (("forex", 60_000, 10), ("crypto", 60_000, 100)):
        with tempfile.TemporaryDirectory() as folder:
            report = trained(world, oracle_bars(world), steps, Path(folder), columns="oracle")
        agent, hold = (100 * report[name]["total_return"] for name in ("agent", "hold"))
        rows.append(
            Row(
                f"oracle: {world}, return with the next bar leaked",
                f"{agent:+.1f} %",
                f"hold {hold:+.1f} %",
                agent,
                least,
                " %",
            )
        )
    return rows


def nothing_rows(rounds: int, quick: bool) -> list[Row]:
    """Agents that were trained on random walks must not earn anything: the mean over seeds, on unseen bars."""
    rows, seeds = [], 3 if quick else WALK_SEEDS
    for world in ("forex", "crypto"):
        gains = []
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                report = trained(world, walk_bars(world, seed=seed), 60_000, Path(folder), seed, columns="close")
            gains.append(report["agent"]["total_return"])
        p = p_value_of_gains(gains)
        rows.append(
            Row(
                f"nothing: {world}, random walks, {seeds} seeds, p of a mean gain > 0",
                f"{100 * np.mean(gains):+.2f} %",
                "",
                p,
                0.01,
                "",
            )
        )
    return rows


def accounting_rows(rounds: int, quick: bool) -> list[Row]:
    """200 random sequences of orders, here and in vectorbt."""
    if find_spec("vectorbt") is None:
        print("vectorbt is not installed (pip install vectorbt): its row is skipped", file=sys.stderr)
        return []
    sequences = 3 if quick else 50
    worst = max(worst_difference(name, sequences) for name in ACCOUNTS)
    what = f"accounting: equity against vectorbt's, {sequences * len(ACCOUNTS)} sequences"
    return [Row(what, "", "", worst * 1e6, 1.0, "e-6", most=True)]


def accountant_rows(rounds: int, quick: bool) -> list[Row]:
    """Accounts with shorts, limits, stops and partial fills, beside accountants that share no code with the worlds and
    compute in exact decimal numbers: 100,000 steps of each account, over all its cases together."""
    rows = []
    spot = [case for case in test_perpetual_accounting.CASES if case.startswith("crypto")]
    perpetuals = [case for case in test_perpetual_accounting.CASES if case.startswith("perpetuals")]
    for account, module, cases in (
        ("crypto", test_perpetual_accounting, spot),
        ("perpetuals", test_perpetual_accounting, perpetuals),
        ("forex account", test_forex_accounting, list(test_forex_accounting.CASES)),
    ):
        found = [module.worst_difference(case, (1_000 if quick else 100_000) // len(cases)) for case in cases]
        happened = sum((counts for _, counts, _ in found), Counter[str]())
        what = f"accountant: {account}, {sum(steps for *_, steps in found):,} steps, difference"
        told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(happened.items()))
        rows.append(Row(what, told, "", max(worst for worst, *_ in found) * 1e12, 1000.0, "e-12", most=True))
    return rows


def conservation_rows(rounds: int, quick: bool) -> list[Row]:
    """Initial balance + gains - costs = equity, after every step."""
    rows = []
    for world in OPTIONS:
        ledger = balanced(world, 50_000 if quick else 1_000_000)
        what = f"conservation: {world}, {ledger.steps:,} steps, part of the balance"
        rows.append(Row(what, "", "", ledger.worst * 1e9, 1.0, "e-9", most=True))
    return rows


ROWS = {
    "future": future_rows, "oracle": oracle_rows, "nothing": nothing_rows, "accounting": accounting_rows,
    "accountants": accountant_rows, "conservation": conservation_rows,
}  # fmt: skip
