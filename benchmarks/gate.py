"""Who passes the gate of market worlds, over simulated studies: noise, true skill, and challengers that are no better.

    python benchmarks/gate.py            # a minute or two
    python benchmarks/gate.py --studies 50

A study has five years of daily bars. Its trials hold a part of the market that changes at random, so that they know
nothing; those with skill also earn the stated Sharpe ratio a year beyond that. The best trial by its folds is the
candidate, and the last 15 % of the bars decide.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from rookery.deploy.market_conditions import Compared, Limits, StudyEvidence, market_conditions
from rookery.performance.overfitting import FoldOverfitting, block_overfitting
from rookery.performance.worth import excess_moments

A_YEAR = 365
YEARS = 5.0
LAST = 0.15
BLOCKS = 12
VOLATILITY = 0.03  # of the market, a day
MARKETS = {"driftless": 0.0, "falling": -2.0, "rising": 2.0}  # the Sharpe ratio a year of holding
TRIALS = (1, 2, 5, 20, 100, 500)
LEAST_STAY = 5  # bars that a position is held on average


def market(rng: np.random.Generator, ratio: float, bars: int) -> np.ndarray:
    """Returns with fat tails, and this Sharpe ratio a year."""
    noise = rng.standard_t(5, bars) / np.sqrt(5 / 3)
    return VOLATILITY * (noise + ratio / np.sqrt(A_YEAR))


def accounts(rng: np.random.Generator, hold: np.ndarray, trials: int, skill: float) -> np.ndarray:
    """The returns (trials, bars) of accounts whose positions know nothing, with `skill` a year beyond that."""
    bars = len(hold)
    changes = rng.random((trials, bars), np.float32) < 1 / LEAST_STAY
    changes[:, 0] = True
    last_change = np.maximum.accumulate(np.where(changes, np.arange(bars), 0), axis=1)
    positions = np.take_along_axis(rng.random((trials, bars), np.float32), last_change, axis=1).astype(np.float64)
    excess = (positions - positions.mean(axis=1, keepdims=True)) * (hold - hold.mean())
    return positions * hold + skill / np.sqrt(A_YEAR) * excess.std(axis=1, keepdims=True)


def sums_by_block(returns: np.ndarray, hold: np.ndarray) -> np.ndarray:
    """(blocks, trials, 3): what `block_overfitting` takes, of what the accounts earned beyond holding."""
    centred = hold - hold.mean()
    excess = returns - np.outer(returns @ centred / (centred @ centred), hold)
    edges = np.arange(BLOCKS) * excess.shape[1] // BLOCKS
    powers = np.ones_like(excess), excess, excess**2
    return np.stack([np.add.reduceat(each, edges, axis=1).T for each in powers], axis=-1)


def study(rng: np.random.Generator, ratio: float, trials: int, skill: float, limits: Limits) -> bool:
    """Whether the best of these trials is promoted."""
    bars = int(YEARS * A_YEAR)
    known = bars - round(LAST * bars)
    hold = market(rng, ratio, bars)
    returns = accounts(rng, hold, trials, skill)
    folds = returns[:, :known]
    best = int((folds.mean(axis=1) / folds.std(axis=1)).argmax())
    overfitting = None
    if trials > 1:
        found = block_overfitting(sums_by_block(folds, hold[:known]))
        overfitting = FoldOverfitting(found.probability, found.loss, trials)
    evidence = StudyEvidence(trials, excess_moments(folds[best], hold[:known]), overfitting, trials > 1)
    compared = Compared(returns[best, known:], hold[known:], None, A_YEAR)
    return all(passed for passed, _, _ in market_conditions(compared, evidence, limits))


def challenger(rng: np.random.Generator, ratio: float, skill: float, limits: Limits) -> bool:
    """Whether a challenger passes that is as good as the champion."""
    hold = market(rng, ratio, round(LAST * YEARS * A_YEAR))
    mine, champion = accounts(rng, hold, 2, skill)
    evidence = StudyEvidence(1, excess_moments(*_before(rng, ratio, skill)))
    conditions = market_conditions(Compared(mine, hold, champion, A_YEAR), evidence, limits)
    return all(passed for passed, _, _ in conditions)


def _before(rng: np.random.Generator, ratio: float, skill: float) -> tuple[np.ndarray, np.ndarray]:
    hold = market(rng, ratio, round((1 - LAST) * YEARS * A_YEAR))
    return accounts(rng, hold, 1, skill)[0], hold


def rates(studies: int, seed: int, trials: tuple[int, ...] = TRIALS, limits: Limits | None = None) -> list[tuple]:
    """(what, market, share promoted, limit, whether it holds) for each case."""
    limits = limits or Limits()
    rows = []
    for name, ratio in MARKETS.items():
        for what, skill, bound in (("noise", 0.0, 0.05), ("skill of 2 a year", 2.0, 0.6)):
            rng = np.random.default_rng([seed, len(rows)])
            share = np.mean([study(rng, ratio, trials[k % len(trials)], skill, limits) for k in range(studies)])
            rows.append((what, name, float(share), bound, share >= bound if skill else share <= bound))
    for name, ratio in MARKETS.items():
        rng = np.random.default_rng([seed, len(rows)])
        share = np.mean([challenger(rng, ratio, 4.0, limits) for _ in range(studies)])
        rows.append(("equal challenger", name, float(share), 0.06, share <= 0.06))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, nargs="+", default=TRIALS)
    options = parser.parse_args()
    began = time.perf_counter()
    rows = rates(options.studies, options.seed, tuple(options.trials))
    for what, name, share, bound, holds in rows:
        must = f"must be {'>=' if what.startswith('skill') else '<='} {100 * bound:g} %"
        print(f"{what:18} {name:10} {100 * share:5.1f} % promoted, {must}: {'ok' if holds else 'FAILS'}")
    seconds = time.perf_counter() - began
    print(f"{options.studies} studies each, trials {', '.join(map(str, options.trials))}: {seconds:.0f} s")
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
