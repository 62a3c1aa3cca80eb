"""Games on the terminal: a line while they are played, and a table of results."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HEADINGS = ("against", "games", "won (95 % CI)", "drawn", "lost (95 % CI)", "length", "return")
UPDATE_SECONDS = 0.2  # between two changes of the line


def print_games(results: dict[str, Any]) -> None:
    """A table of what `evaluate_games` returned, a row for each opponent. Lines are never cut: names can be copied."""
    step = f" at step {results['step']:,}" if "step" in results else ""
    print(f"{results['agent']}{step}, seed {results['seed']}, {results['seconds']:.1f} s")
    rows = [HEADINGS, *(_row(row) for row in results.get("opponents", [results]))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print(first.ljust(widths[0]), *cells, sep="  ")


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["opponent"],
        f"{row['games']:,}",
        _share(row["win_rate"], row["win_rate_interval"]),
        f"{100 * row['draw_rate']:.1f} %",
        _share(row["loss_rate"], row["loss_rate_interval"]),
        f"{row['length_mean']:.0f}",
        f"{row['return_mean']:.2f}",
    )


def _share(share: float, interval: list[float]) -> str:
    """
    >>> _share(0.872, [0.8499, 0.891])
    '87.2 % (85.0 to 89.1)'
    """
    return f"{100 * share:.1f} % ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"


@contextmanager
def counting(total: int, what: str = "games") -> Iterator[Callable[[str, int], None]]:
    """A line on standard error that counts games or episodes, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda opponent, done: None
        return
    shown = 0.0

    def update(opponent: str, done: int) -> None:
        nonlocal shown
        if time.perf_counter() - shown > UPDATE_SECONDS:
            shown = time.perf_counter()
            against = f"against {opponent}: " if opponent else ""
            sys.stderr.write(f"\r\x1b[K{against}{done:,} of {total:,} {what}")
            sys.stderr.flush()

    try:
        yield update
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
