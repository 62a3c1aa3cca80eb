"""The engine's figures against its peers, on this machine, in one run: `make bench`, or

    python benchmarks/engine.py [--only NAME ...] [--rounds 8] [--json FILE]

Machines are noisy, so both sides of a ratio are measured in turns, in short slices, and the median of the ratios of
neighbouring slices counts. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import ROWS, Row


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=10, help="slices per side (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args()
    results = []
    console = Console(stderr=True)
    for name in args.only or ROWS:
        with console.status(f"{name} ..."):
            started = time.perf_counter()
            results += ROWS[name](args.rounds)
            console.print(f"{name}: {time.perf_counter() - started:.0f} s")
    Console(width=130).print(table(results))
    if args.json:
        args.json.write_text(json.dumps([row.as_dict() for row in results], indent=1))
    missed = [row for row in results if not row.passed]
    print(f"{len(results) - len(missed)} of {len(results)} reached")
    return 1 if missed else 0


def table(rows: list[Row], title: str = "rookery engine") -> Table:
    """One line per figure."""
    out = Table(title=title)
    for title, justify in (("measure", "left"), ("ours", "right"), ("theirs", "right"), ("figure", "right")):
        out.add_column(title, justify=justify)  # type: ignore[arg-type]
    out.add_column("must reach", justify="right")
    out.add_column("")
    for row in rows:
        verdict = "[green]pass[/]" if row.passed else "[red]miss[/]"
        out.add_row(row.measure, row.ours, row.theirs, row.figure, row.target, verdict)
    return out


if __name__ == "__main__":
    sys.exit(main())
