"""Output on the terminal: numbers with units, tables, progress bars, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from rookery.console import size_text

PAGE = 4096
WIDEST = 10_000  # columns; wider than any table


def duration(seconds: float) -> str:
    """A duration in a suitable unit.

    >>> duration(12.3e-6), duration(0.0042), duration(3.21)
    ('12 us', '4.2 ms', '3.2 s')
    """
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{seconds:.1f} s"


def rate(steps_per_second: float) -> str:
    """
    >>> rate(71822.3), rate(3.14)
    ('71,822', '3.1')
    """
    return f"{steps_per_second:,.0f}" if steps_per_second >= 100 else f"{steps_per_second:.1f}"


def times(ratio: float) -> str:
    """
    >>> times(8.234), times(0.97), times(123.4)
    ('8.2x', '0.97x', '123x')
    """
    return f"{ratio:.2f}x" if ratio < 2 else f"{ratio:.1f}x" if ratio < 100 else f"{ratio:.0f}x"


def percent(share: float) -> str:
    """
    >>> percent(0.62), percent(0.004)
    ('62 %', '0.4 %')
    """
    return f"{100 * share:.1f} %" if share < 0.01 else f"{100 * share:.0f} %"


def count(number: float) -> str:
    """
    >>> count(1), count(0.051), count(8231.0)
    ('1', '0.051', '8,231')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def memory(size: int) -> str:
    """Bytes, not finer than they can be measured."""
    return size_text(size) if size >= PAGE else "under 4 KiB"


class _PipeConsole(Console):
    """A console whose reader may close the pipe: `rookery.cli.main` handles that error; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Results go to standard output, so that they can be piped; everything else goes to standard error."""
    return _PipeConsole(highlight=False, markup=False, emoji=False)  # names are not markup


def table(title: str, *columns: str) -> Table:
    """An empty table; a column whose name ends in '>' is aligned to the right."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="", box=None, pad_edge=False)
    for name in columns:
        right = name.endswith(">")
        made.add_column(name.removesuffix(">"), justify="right" if right else "left", no_wrap=right)
    return made


def width(out: Console, made: Table) -> int:
    """Number of columns of a table if nothing is cut or wrapped."""
    return Measurement.get(out, out.options.update(width=WIDEST), made).maximum


def print_table(out: Console, made: Table) -> None:
    """Print a table at its full width: on a narrow terminal lines are wrapped, but names and numbers are never cut."""
    screen = out.width
    out.width = max(screen, width(out, made))
    out.print(made, crop=False)
    out.width = screen


def emit_json(value: Any) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error, if that is a terminal; call the yielded function before each part.

    It is drawn only at those calls: a thread that refreshes it would disturb the measurement.
    """
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(TextColumn("{task.description}"), BarColumn(), console=screen, auto_refresh=False, transient=True)
    with bar:
        task = bar.add_task("", total=total)

        def advance(what: str) -> None:
            bar.update(task, description=what, advance=1, refresh=True)

        yield advance
