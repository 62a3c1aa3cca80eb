"""What all benchmark scripts do: choose rows, measure them one after the other, print a table, say what was missed."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from engine_rows import Row


def parser_for(description: str | None, rows: Iterable[str], rounds: int | None = None) -> argparse.ArgumentParser:
    """The options that all of them have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(rows), help=f"of {', '.join(rows)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="turns per side (default: %(default)s)")
    return parser


def measured(
    rows: Mapping[str, Callable[[], Iterable[Row]]], only: Sequence[str] | None, file: Path | None = None
) -> list[Row]:
    """Measure the chosen rows, all if none are. Each is printed on standard error, and written to the file, as soon as
    it is there: a benchmark that is killed has lost nothing. A measure that yields its rows need not wait for the
    last."""
    results: list[Row] = []
    console = Console(stderr=True)
    for name in only or rows:
        with console.status(f"{name} ..."):
            started = time.perf_counter()
            for row in rows[name]():
                console.print(
                    f"  {row.measure}: {row.figure} ({', '.join(filter(None, (row.ours, row.theirs)))})",
                    highlight=False,
                )
                results.append(row)
                write(results, file)
            console.print(f"{name}: {time.perf_counter() - started:.0f} s")
    return results


def write(results: Sequence[Row], file: Path | None) -> None:
    """Write the figures, if there is a file for them."""
    if file is not None:
        file.write_text(json.dumps([row.as_dict() for row in results], indent=1))


def said(text: str) -> None:
    """A line about work that takes long, on standard error."""
    Console(stderr=True).print(f"  {text}", highlight=False)


def report(results: Sequence[Row], title: str, file: Path | None) -> int:
    """Print the rows, and write them to a file if one is named; returns 1 if any misses what it must reach."""
    Console(width=140).print(table(results, title))
    write(results, file)
    missed = [row for row in results if not row.passed]
    print(f"{len(results) - len(missed)} of {len(results)} reached")
    return 1 if missed else 0


def table(rows: Sequence[Row], title: str) -> Table:
    """One line per figure."""
    out = Table(title=title)
    for column, justify in (("measure", "left"), ("ours", "right"), ("theirs", "right"), ("figure", "right")):
        out.add_column(column, justify=justify)  # type: ignore[arg-type]
    out.add_column("must reach", justify="right")
    out.add_column("")
    for row in rows:
        verdict = "[green]pass[/]" if row.passed else "[red]miss[/]"
        out.add_row(row.measure, row.ours, row.theirs, row.figure, row.target, verdict)
    return out


def markdown(rows: Sequence[Row]) -> str:
    """The same for a page of the documentation."""
    lines = ["| measure | ours | theirs | figure | must reach | reached |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = (row.measure, row.ours, row.theirs, row.figure, row.target, "yes" if row.passed else "no")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
