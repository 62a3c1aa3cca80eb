"""The learners' speed on this machine, against Stable-Baselines3 in the same run: `make bench-learners`, or

    python benchmarks/learners.py [--only NAME ...] [--rounds 5] [--json FILE]

Both sides take turns; figures are medians over the turns. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from learner_rows import ROWS
from report import measured, parser_for, report


def main() -> int:
    """Measure the chosen rows and print them."""
    args = parser_for(__doc__, ROWS, rounds=5).parse_args()
    warnings.filterwarnings("ignore")  # those of the peers
    rows = {name: partial(row, args.rounds) for name, row in ROWS.items()}
    return report(measured(rows, args.only), "rookery learners", args.json)


if __name__ == "__main__":
    sys.exit(main())
