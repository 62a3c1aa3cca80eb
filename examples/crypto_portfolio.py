"""A crypto portfolio from bars to a report: make bars, add features, train, test on bars that nobody has trained on.

    python examples/crypto_portfolio.py

The bars are synthetic, with a planted signal, so that there is something to learn. docs/markets.md shows how to use
real ones.
"""

import sys
from pathlib import Path

import rookery
from rookery.data import CRYPTO_FEATURES, add_features, synthesise, write

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
path = Path("data/crypto.parquet")
path.parent.mkdir(exist_ok=True)

bars = synthesise(assets=7, bars=12_000, timeframe="5m", seed=1, signal=0.3)
write(add_features(bars, CRYPTO_FEATURES), path)

options = {"data": path, "columns": [*CRYPTO_FEATURES, "signal"], "costs": "alpaca-crypto"}
result = rookery.train("crypto", world_options=options, steps=steps, num_envs=64, monitor={"report": False})

report = rookery.backtest(result.path, split="test", out="report")
report.print()
print("report:", Path("report").resolve())
