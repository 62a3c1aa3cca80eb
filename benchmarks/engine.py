"""The engine's figures against its peers, on this machine, in one run: `make bench`, or

    python benchmarks/engine.py [--only NAME ...] [--rounds 8] [--json FILE]

Machines are noisy, so both sides of a ratio are measured in turns, in short slices, and the median of the ratios of
neighbouring slices counts. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import ROWS
from report import measured, parser_for, report


def main() -> int:
    """Measure the chosen rows and print them."""
    args = parser_for(__doc__, ROWS, rounds=10).parse_args()
    rows = {name: partial(row, args.rounds) for name, row in ROWS.items()}
    return report(measured(rows, args.only), "rookery engine", args.json)


if __name__ == "__main__":
    sys.exit(main())
