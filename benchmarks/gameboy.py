"""Game Boy worlds in figures: `make bench-gameboy`, or

    python benchmarks/gameboy.py [--only NAME ...] [--rounds 9] [--json FILE]

Sides of a ratio take turns, and the median over the turns counts. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from gameboy_learning import LEARNING
from gameboy_rows import ROWS
from report import measured, parser_for, report


def main() -> int:
    """Measure the chosen rows and print them."""
    known = {**ROWS, **LEARNING}
    args = parser_for(__doc__, known, rounds=9).parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    rows = {name: partial(row, args.rounds) for name, row in known.items()}
    return report(measured(rows, args.only), "rookery Game Boy", args.json)


if __name__ == "__main__":
    sys.exit(main())
