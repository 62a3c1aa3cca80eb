"""The kernel worlds' figures on this machine, in one run: `make bench-kernels`, or

    python benchmarks/kernels.py [--only NAME ...] [--rounds 8] [--reference FILE.npz] [--json FILE]

Rows that need a GPU are measured where there is one. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kernel_gpu
from kernel_rows import ROWS
from report import measured, parser_for, report

GPU_ROWS = {"gpu-speed": kernel_gpu.speed_rows, "gpu-agreement": kernel_gpu.agreement_rows}


def main() -> int:
    """Measure the chosen rows and print them."""
    known = {**ROWS, **(GPU_ROWS if kernel_gpu.available() else {})}
    parser = parser_for(__doc__, known, rounds=10)
    parser.add_argument("--reference", type=Path, metavar="FILE", help="recorded hockey steps to compare with")
    args = parser.parse_args()
    rows = {name: partial(row, args.rounds) for name, row in known.items()}
    rows["fidelity"] = partial(rows["fidelity"], reference=args.reference)
    return report(measured(rows, args.only), "rookery kernel worlds", args.json)


if __name__ == "__main__":
    sys.exit(main())
