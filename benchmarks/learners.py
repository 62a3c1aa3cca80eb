"""The learners' speed on this machine, against Stable-Baselines3 in the same run: `make bench-learners`, or

    python benchmarks/learners.py [--only NAME ...] [--rounds 5] [--json FILE]

Both sides take turns; figures are medians over the turns. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

from engine import table
from learner_rows import ROWS


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=5, help="turns per side (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # those of the peers
    results = []
    console = Console(stderr=True)
    for name in args.only or ROWS:
        with console.status(f"{name} ..."):
            started = time.perf_counter()
            results += ROWS[name](args.rounds)
            console.print(f"{name}: {time.perf_counter() - started:.0f} s")
    Console(width=130).print(table(results, "rookery learners"))
    if args.json:
        args.json.write_text(json.dumps([row.as_dict() for row in results], indent=1))
    missed = [row for row in results if not row.passed]
    print(f"{len(results) - len(missed)} of {len(results)} reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
