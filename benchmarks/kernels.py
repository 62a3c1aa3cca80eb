"""The kernel worlds' figures on this machine, in one run: `make bench-kernels`, or

    python benchmarks/kernels.py [--only NAME ...] [--rounds 8] [--reference FILE.npz] [--json FILE]

Rows that need a GPU are measured where there is one. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

import kernel_gpu
from engine import table
from kernel_rows import ROWS

GPU_ROWS = {"gpu-speed": kernel_gpu.speed_rows, "gpu-agreement": kernel_gpu.agreement_rows}


def main() -> int:
    """Measure the chosen rows and print them."""
    known = {**ROWS, **(GPU_ROWS if kernel_gpu.available() else {})}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(known), help=f"of {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=10, help="slices per side (default: %(default)s)")
    parser.add_argument("--reference", type=Path, metavar="FILE", help="recorded hockey steps to compare with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args()
    results = []
    console = Console(stderr=True)
    for name in args.only or known:
        with console.status(f"{name} ..."):
            started = time.perf_counter()
            options = {"reference": args.reference} if name == "fidelity" else {}
            results += known[name](args.rounds, **options)
            console.print(f"{name}: {time.perf_counter() - started:.0f} s")
    Console(width=130).print(table(results, "rookery kernel worlds"))
    if args.json:
        args.json.write_text(json.dumps([row.as_dict() for row in results], indent=1))
    missed = [row for row in results if not row.passed]
    print(f"{len(results) - len(missed)} of {len(results)} reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
