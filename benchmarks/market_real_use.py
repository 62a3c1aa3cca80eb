"""Real use in one command: five years of made-up hourly bars of eight coins with a planted signal; search, verify,
promote, trade on paper, and compare the paper account with a backtest bit by bit.

    python benchmarks/market_real_use.py              # 8 trials; 3 of 196,608 steps took five minutes
    python benchmarks/market_real_use.py --short      # a year, 1 trial of few steps: minutes; shows that the parts fit

The signal is so strong that a rule that holds each coin while its signal is above 0 earns the planted Sharpe ratio a
year beyond its share of holding, after costs and over all bars, in the same account.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.data.dataset import Bars, Dataset
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.deploy.paper.account_files import AccountFolder
from rookery.deploy.paper.bar_sources import KillLimits
from rookery.deploy.paper.paper import PaperOptions, paper
from rookery.deploy.paper.parity import check_parity
from rookery.deploy.paper.traded_agents import open_agents
from rookery.performance import excess_moments

COINS, HOURS = 8, 5 * 365 * 24
A_YEAR = 365 * 24
COSTS = {"preset": "none", "fee": 0.0002}
WORLD = {
    "columns": ["signal"], "lookback": 1, "action_type": "weights", "hold_limit": 0, "costs": COSTS,
    "benchmark_weight": 1.0, "min_change": 0.02,
}  # fmt: skip
# A bar earns what its own weights decide, and later rewards are noise: a small gamma learns from the fewest steps.
PPO = {"hidden": [16], "gae_lambda": 0.0, "rollout_length": 64, "minibatches": 8}
SPACE = {"ppo.learning_rate": {"log": [1e-3, 1e-2]}, "ppo.gamma": {"uniform": [0.02, 0.3]}}
TRIES = 8  # of the strength of the signal


def follow(bars: Bars) -> np.ndarray:
    """Hold the coin while its signal is above 0."""
    return (bars["signal"] > 0).astype(float)


def sharpe_beyond_holding(data: Dataset) -> float:
    """Of that rule, a year, after costs, by plain arithmetic: weights of one eighth, filled at the next open."""
    closes = np.stack([bars["close"] for bars in data.bars], axis=1)
    held = np.stack([follow(bars) for bars in data.bars], axis=1)[:-1] / COINS
    moves = closes[1:] / closes[:-1] - 1
    traded = np.abs(np.diff(held, axis=0, prepend=np.zeros((1, COINS)))).sum(axis=1)
    excess = excess_moments((held * moves).sum(axis=1) - COSTS["fee"] * traded, moves.mean(axis=1))
    return excess["sharpe_per_bar"] * A_YEAR**0.5


def planted(ratio: float, bars: int, seed: int) -> tuple[Dataset, float]:
    """Bars whose signal is worth this Sharpe ratio a year, and how strong the signal is."""
    low, high = 0.0, 0.3
    for _ in range(TRIES):
        middle = (low + high) / 2
        data = synthesise(COINS, bars, "1h", seed, signal=middle, signal_half_life=48.0)
        low, high = (middle, high) if sharpe_beyond_holding(data) < ratio else (low, middle)
    return data, middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a year of bars, and 1 trial of few steps")
    parser.add_argument("--sharpe", type=float, default=2.0, help="the planted Sharpe ratio a year (2)")
    parser.add_argument("--trials", type=int, help="(8)")
    parser.add_argument("--steps", type=int, help="of each fold (262,144)")
    parser.add_argument("--seed", type=int, default=1, help="of bars and agents (1)")
    options = parser.parse_args()
    trials, steps = (
        options.trials or (1 if options.short else 8),
        options.steps or (16_384 if options.short else 262_144),
    )
    with tempfile.TemporaryDirectory(prefix="real-use-") as name:
        rows = real_use(Path(name), HOURS // 5 if options.short else HOURS, options.sharpe, trials, steps, options.seed)
    print(json.dumps(rows, indent=2))
    return 0 if rows["promoted"] and rows["paper"]["first_difference"] is None else 1


def real_use(folder: Path, hours: int, ratio: float, trials: int, steps: int, seed: int) -> dict[str, Any]:
    clock = [time.perf_counter()]

    def seconds() -> float:
        clock.append(time.perf_counter())
        return round(clock[-1] - clock[-2], 1)

    data, strength = planted(ratio, hours, seed)
    path = str(folder / "bars.parquet")
    write(data, path)
    rule = rookery.backtest(follow, data=data, costs=COSTS, world="crypto")
    rows: dict[str, Any] = {
        "bars": f"{COINS} coins, {hours:,} bars of 1h each", "signal": round(strength, 4),
        "sharpe_of_the_rule_beyond_holding": round(rule["luck"]["excess_sharpe"], 2), "seconds_data": seconds(),
    }  # fmt: skip
    say(rows)
    study = rookery.search(
        "crypto", n_trials=trials, study_name="real-use", studies_dir=folder / "studies", learner="ppo", num_envs=64,
        steps=steps, seed=seed, world_options={**WORLD, "data": path}, ppo=PPO, search={"verify": 1, "space": SPACE},
    )  # fmt: skip
    rows |= {
        "trials": study.finished, "failed": study.failed, "steps_of_a_fold": steps, "seconds_search": seconds(),
    }  # fmt: skip
    say(rows)
    decision = rookery.deploy("real-use", to=folder / "agents", studies_dir=folder / "studies", seed=seed)
    rows |= {
        "promoted": decision.action == "promoted", "decision": decision.text, "gate": decision.as_json().get("gate"),
        "seconds_gate": seconds(),
    }  # fmt: skip
    say(rows)
    if not rows["promoted"]:  # the paper account is shown in any case
        rookery.deploy("real-use", to=folder / "agents", studies_dir=folder / "studies", first=True, again=True)
    start = int(data.bars[0].times[-1]) - 60 * 24 * 3600
    limits = KillLimits(max_drawdown=1.0)
    paper(folder / "agents", PaperOptions(path, account=folder / "account", start=start, limits=limits))
    found = check_parity(AccountFolder(folder / "account"), open_agents(folder / "agents"))
    return {**rows, "paper": found.as_json(), "seconds_paper": seconds()}


def say(rows: dict[str, Any]) -> None:
    """What is known so far, on standard error."""
    print(json.dumps(rows), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
