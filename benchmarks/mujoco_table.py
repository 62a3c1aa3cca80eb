"""The MuJoCo worlds' figures on this machine, in one run: `make bench-mujoco`, or

    python benchmarks/mujoco_table.py [--only NAME ...] [--rounds 10] [--quick] [--json FILE]

What agents reach is measured by `benchmarks/learning.py --only halfcheetah hopper`; that all tasks are Gymnasium's, by
`pytest -m slow tests/worlds/test_mujoco_tasks.py`. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mujoco_rows
import mujoco_training
from report import measured, parser_for, report

ROWS = {**mujoco_rows.ROWS, **mujoco_training.ROWS}


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, ROWS, rounds=10)
    parser.add_argument("--quick", action="store_true", help="fewer tasks, envs and resets: to see that all works")
    args = parser.parse_args()
    rows = {name: partial(row, args.rounds, args.quick) for name, row in ROWS.items()}
    return report(measured(rows, args.only), "rookery MuJoCo worlds", args.json)


if __name__ == "__main__":
    sys.exit(main())
