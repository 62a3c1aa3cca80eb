"""The rows of the market worlds' table that need a GPU: `python benchmarks/market_gpu.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from kernel_gpu import available, graph_rate
from rookery.data.dataset import BAR_COLUMNS
from rookery.data.features import CRYPTO_FEATURES, FOREX_FEATURES

NUM_ENVS = 65_536
COINS = {"columns": (*BAR_COLUMNS, *CRYPTO_FEATURES), "lookback": 5}
WORLDS = (
    ("forex, lookback 10, nine features", "rookery/Forex-v0", 1e9, {"columns": FOREX_FEATURES, "lookback": 10}),
    ("crypto, 7 x 14 columns, lookback 5", "rookery/Crypto-v0", 300e6, COINS),
    ("perpetuals, 7 x 14 columns, lookback 5", "rookery/Perpetuals-v0", 300e6, COINS),
    ("perpetuals, orders inside the bar", "rookery/Perpetuals-v0", 300e6, {**COINS, "action_type": "brackets"}),
    ("forex account, 4 x 9 columns", "rookery/ForexAccount-v0", 300e6, {"columns": FOREX_FEATURES, "lookback": 10}),
)


def speed_rows(rounds: int, quick: bool) -> list[Row]:
    """65,536 envs in a CUDA graph."""
    rows = []
    for name, world, least, options in WORLDS:
        rate = graph_rate(world, NUM_ENVS, rounds, **options)
        what = f"{name}, on a GPU, n=65,536, CUDA graph"
        rows.append(Row(what, f"{rate:,.0f}/s", "", rate / 1e6, least / 1e6, " M/s"))
    return rows


ROWS = {"gpu": speed_rows}


def main() -> int:
    """Measure the rows and print them."""
    from report import report

    if not available():
        print("there is no GPU here: nothing was measured")
        return 0
    return report(speed_rows(5, False), "rookery market worlds on a GPU", None)


if __name__ == "__main__":
    sys.exit(main())
