"""The market worlds' figures on this machine, in one run: `make bench-markets`, or

    python benchmarks/markets.py [--only NAME ...] [--rounds 8] [--quick] [--json FILE]

`--quick` shows that every row works, with fewer steps, bars and seeds: its figures say little. The rows that need a GPU
are in `market_gpu.py`; they are measured too where there is one. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import market_gpu
import market_guards
import market_learning
import market_speed
from report import measured, parser_for, report


def main() -> int:
    """Measure the chosen rows and print them."""
    known = {**market_speed.ROWS, **market_guards.ROWS, **market_learning.ROWS}
    known |= market_gpu.ROWS if market_gpu.available() else {}
    parser = parser_for(__doc__, known, rounds=10)
    parser.add_argument("--quick", action="store_true", help="fewer steps, bars and seeds")
    args = parser.parse_args()
    rows = {name: partial(row, args.rounds, args.quick) for name, row in known.items()}
    return report(measured(rows, args.only), "rookery market worlds", args.json)


if __name__ == "__main__":
    sys.exit(main())
