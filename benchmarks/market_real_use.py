"""Real use in one command: five years of made-up hourly bars of eight coins with a planted signal, and

    rookery schedule real-use.toml --to agents --paper bars.parquet --once --max-drawdown 0.9

which searches, verifies, promotes, trades on paper to the end of the bars, and compares the paper account with a
backtest bit by bit. The same command on bars without a signal should promote nothing.

    python benchmarks/market_real_use.py                          # seed 1, with the signal and without
    python benchmarks/market_real_use.py --seeds 1 2 3 --kinds planted
    python benchmarks/market_real_use.py --short                  # only that the parts fit: a year cannot tell luck

The strength of the signal is such that a rule that holds each coin while its signal is above 0 earns the planted Sharpe
ratio a year beyond its share of holding, after costs, on 25 years of other bars. On five years it earns more or less by
luck, which is printed as `rule`; no agent sees the rule. The settings were chosen with seeds 101 to 103. Exits with 1
unless every planted study was promoted with its paper account equal to the backtest, and no other study was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
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
from rookery.deploy.registry import Registry
from rookery.performance import excess_moments

COINS, A_YEAR, YEARS = 8, 365 * 24, 5
HALF_LIFE = 48.0  # bars, of the signal
CALIBRATION = (25, 10_001)  # years and seed of the bars by which the strength of the signal is chosen
TRIES = 8
LIMIT = ("--max-drawdown", "0.9")  # made-up coins fall by a third while they are held
NOISE = 1e-12  # the strength of a signal that is worth nothing; without any there would be no such column
COSTS = {"preset": "none", "fee": 0.0002}
CONFIG = """\
world = "crypto"
learner = "ppo"
num_envs = 64
steps = {steps}                # of each run; a trial is six runs, one per fold
seed = {seed}

[world_options]
data = "bars.parquet"
columns = ["signal"]
lookback = 1
action_type = "weights"
hold_limit = 0
costs = {{ preset = "none", fee = 0.0002 }}

[ppo]
share_weights = true           # a signal means the same for every coin
hidden = [16]
rollout_length = 64
minibatches = 8
gae_lambda = 0.9

[search]
n_trials = {trials}
verify = 1
verify_seeds = 2
workers = 2

[search.space]
"ppo.learning_rate" = {{ log = [5e-4, 3e-3] }}
"ppo.gamma" = {{ uniform = [0.7, 0.95] }}
"""


def follow(bars: Bars) -> np.ndarray:
    """Hold the coin while its signal is above 0."""
    return (bars["signal"] > 0).astype(float)


def made_up(years: int, seed: int, strength: float) -> Dataset:
    """Bars with a column `signal`."""
    return synthesise(COINS, years * A_YEAR, "1h", seed, signal=strength, signal_half_life=HALF_LIFE)


def sharpe_beyond_holding(data: Dataset) -> float:
    """Of that rule, a year, after costs, by plain arithmetic: weights of one eighth, filled at the next open."""
    closes = np.stack([bars["close"] for bars in data.bars], axis=1)
    held = np.stack([follow(bars) for bars in data.bars], axis=1)[:-1] / COINS
    moves = closes[1:] / closes[:-1] - 1
    traded = np.abs(np.diff(held, axis=0, prepend=np.zeros((1, COINS)))).sum(axis=1)
    excess = excess_moments((held * moves).sum(axis=1) - COSTS["fee"] * traded, moves.mean(axis=1))
    return excess["sharpe_per_bar"] * A_YEAR**0.5


def strength_of(ratio: float) -> float:
    """How strong a signal is that is worth this Sharpe ratio a year."""
    years, seed = CALIBRATION
    low, high = 0.0, 0.1
    for _ in range(TRIES):
        middle = (low + high) / 2
        low, high = (middle, high) if sharpe_beyond_holding(made_up(years, seed, middle)) < ratio else (low, middle)
    return middle


def real_use(folder: Path, data: Dataset, seed: int, trials: int, steps: int) -> dict[str, Any]:
    """What became of the command in a folder of its own."""
    write(data, folder / "bars.parquet")
    (folder / "real-use.toml").write_text(CONFIG.format(seed=seed, trials=trials, steps=steps))
    rule = rookery.backtest(follow, data=data, costs=COSTS, world="crypto")
    words = ["schedule", "real-use.toml", "--to", "agents", "--paper", "bars.parquet", "--once", "--json", *LIMIT]
    start = time.perf_counter()
    ended = subprocess.run([sys.executable, "-m", "rookery", *words], cwd=folder, capture_output=True, text=True)
    if ended.returncode != 0:
        print(ended.stderr, file=sys.stderr)
    steps_done = json.loads(ended.stdout)["steps"]
    return {
        "rule": round(rule["luck"]["excess_sharpe"], 2),
        **last_figures(folder / "agents"),
        "promoted": steps_done["promote"].get("action") == "promoted",
        "paper_is_the_backtest": steps_done["parity"]["state"] == "finished",
        "seconds": round(time.perf_counter() - start),
    }  # fmt: skip


def last_figures(registry: Path) -> dict[str, float]:
    """Of the last comparison: what the agent earned beyond holding on the last segment, and how sure the gate was."""
    evidence = [entry.get("evidence") or {} for entry in Registry(registry).audit()]
    found = [each["figures"] for each in evidence if "figures" in each][-1]
    names = ("excess_sharpe", "deflated_sharpe", "overfitting_probability")  # the last one is None for one trial
    return {name: found[name] and round(found[name], 3) for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of bars and agents (1)")
    parser.add_argument("--kinds", nargs="+", choices=("planted", "noise"), default=("planted", "noise"))
    parser.add_argument("--sharpe", type=float, default=2.0, help="the planted Sharpe ratio a year (2)")
    parser.add_argument("--trials", type=int, help="(3)")
    parser.add_argument("--steps", type=int, help="of each fold (131,072)")
    parser.add_argument("--short", action="store_true", help="a year of bars, and 1 trial of few steps")
    options = parser.parse_args()
    trials = options.trials or (1 if options.short else 3)
    steps = options.steps or (16_384 if options.short else 131_072)
    strength = strength_of(options.sharpe)
    print(f"a signal of {strength:.4f} is worth a Sharpe ratio of {options.sharpe:g} a year beyond holding", flush=True)
    good = True
    for seed in options.seeds:
        for kind in options.kinds:
            data = made_up(1 if options.short else YEARS, seed, strength if kind == "planted" else NOISE)
            with tempfile.TemporaryDirectory(prefix="real-use-") as folder:
                row = real_use(Path(folder), data, seed, trials, steps)
            print(json.dumps({"kind": kind, "seed": seed, **row}), flush=True)
            wanted = row["promoted"] and row["paper_is_the_backtest"] if kind == "planted" else not row["promoted"]
            good = good and wanted
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
