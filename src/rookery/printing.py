"""Output on the terminal: numbers with units, tables, progress bars, JSON. rich is imported where something needs it:
that takes as long as all else that a quick command does."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rookery.console import size_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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


def console() -> Console:
    """Results go to standard output, so that they can be piped; everything else goes to standard error."""
    from rich.console import Console

    class PipeConsole(Console):
        """Its reader may close the pipe: `rookery.cli.main` handles that error; rich would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return PipeConsole(highlight=False, markup=False, emoji=False)  # names are not markup


def table(title: str, *columns: str) -> Table:
    """An empty table; a column whose name ends in '>' is aligned to the right."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", header_style="", box=None, pad_edge=False)
    for name in columns:
        right = name.endswith(">")
        made.add_column(name.removesuffix(">"), justify="right" if right else "left", no_wrap=right)
    return made


def width(out: Console, made: Table) -> int:
    """Number of columns of a table if nothing is cut or wrapped."""
    from rich.measure import Measurement

    return Measurement.get(out, out.options.update(width=WIDEST), made).maximum


def print_table(out: Console, made: Table) -> None:
    """Print a table at its full width: on a narrow terminal lines are wrapped, but names and numbers are never cut."""
    screen = out.width
    out.width = max(screen, width(out, made))
    out.print(made, crop=False)
    out.width = screen


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table without colours: for long ones, on which rich spends half a second.

    >>> plain_table(["run", "steps>"], [["a", "1,000"], ["long", "5"]])
    ['run   steps', 'a     1,000', 'long      5']
    """
    names = [name.removesuffix(">") for name in columns]
    widths = [max(map(_screen_width, column)) for column in zip(names, *rows, strict=True)]
    is_right = [name.endswith(">") for name in columns]

    def line(cells: Sequence[str]) -> str:
        gaps = (" " * (width - _screen_width(cell)) for cell, width in zip(cells, widths, strict=True))
        parts = (gap + cell if right else cell + gap for cell, gap, right in zip(cells, gaps, is_right, strict=True))
        return "  ".join(parts).rstrip()

    return [line(names), *map(line, rows)]


def _screen_width(text: str) -> int:
    """Number of columns of a text: Chinese characters take two, and accents that follow a letter none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def emit_json(value: Any) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error, if that is a terminal; call the yielded function before each part.

    It is drawn only at those calls: a thread that refreshes it would disturb the measurement.
    """
    from rich.console import Console

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
