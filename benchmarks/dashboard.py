"""Every figure of the dashboard: `make bench-dashboard`, or

    python benchmarks/dashboard.py [--only NAME ...] [--json FILE] [--no-browser]

Pages are opened in Debian's Chromium, which Playwright drives. Server, browser and clients share the machine. It needs
8 GB of disk for a few minutes, and takes about ten. Exits with 1 if a figure misses what it must reach.

- table: 1,000 runs with 10 million lines of metrics: the first table in the browser, cold and warm
- curve: a run of a million points: its curve, a zoom to exact points, frames while it is moved
- rewind: a run with 1,000 checkpoints: its page with the slider, frames while that is dragged
- tensorboard: the curves of 250 runs, beside TensorBoard on the same metrics; needs no browser
- study: the page of a study of 50,000 trials, beside optuna-dashboard
- cost: what the server and a reader cost a training run; needs no browser
- delay: from an event in a run's file to its pixel
- hockey: frames a second in the page, and the time from a key to its frame
- streams, unread, bad: 200 streams, clients that never read, 10,000 bad requests; need no browser
- checks: axe on every page, and the weight of the first page
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import markdown, measured, parser_for, report

Measure = Callable[[Path, argparse.Namespace], Iterable[Row]]


def table(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_table import table_rows

    return table_rows(folder, options.runs, options.lines)


def curve(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_curves import curve_rows

    return curve_rows(folder, options.points)


def rewind(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_rewind import rewind_rows

    return rewind_rows(folder, options.checkpoints)


def tensorboard(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_tensorboard import tensorboard_rows

    return tensorboard_rows(folder, options.rounds, options.patience)


def study(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_study import compared
    from large_study import write_study

    return compared(write_study(folder / "studies" / "large", options.trials), options.trials, options.rounds)


def cost(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_cost import cost_rows

    return cost_rows(folder, options.turns)


def delay(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_delay import delay_rows

    return delay_rows(folder)


def hockey(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_play import play_rows

    return play_rows(seconds=10.0, keys=60)


def abuse(name: str, folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_abuse import abuse_rows, parts

    return abuse_rows(name, parts(options.streams, options.requests)[name])


def checks(folder: Path, options: argparse.Namespace) -> Iterable[Row]:
    from dashboard_page_checks import page_check_rows

    return page_check_rows(folder)


IN_BROWSER: dict[str, Measure] = {"table": table, "curve": curve, "study": study, "delay": delay, "hockey": hockey}
IN_BROWSER |= {"checks": checks, "rewind": rewind}
WITHOUT: dict[str, Measure] = {"tensorboard": tensorboard, "cost": cost}
WITHOUT |= {name: partial(abuse, name) for name in ("streams", "unread", "bad")}


def options_of() -> argparse.Namespace:
    """What the command line says."""
    parser = parser_for(__doc__, [*IN_BROWSER, *WITHOUT], rounds=3)
    parser.add_argument("--no-browser", action="store_true", help="leave out what needs a browser")
    parser.add_argument("--folder", type=Path, help="where temporary folders are made (default: the system's)")
    for name, default, text in (
        ("runs", 1000, "of the table"), ("lines", 10_000, "of metrics in each of them"),
        ("points", 1_000_000, "of the long run"), ("checkpoints", 1000, "of a run"),
        ("trials", 50_000, "of the study"), ("streams", 200, "at once"),
        ("requests", 10_000, "that are bad"), ("turns", 24, "slices of the cost, with the server and without"),
        ("patience", 90, "seconds after which TensorBoard is given up"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default: %(default)s)")
    return parser.parse_args()


def main() -> int:
    """Measure and print, as a table and as Markdown."""
    options = options_of()
    chosen = WITHOUT if options.no_browser else IN_BROWSER | WITHOUT

    def in_folder(measure: Measure) -> Iterator[Row]:
        with tempfile.TemporaryDirectory(prefix="dashboard-", dir=options.folder) as name:
            yield from measure(Path(name), options)

    only = [name for name in options.only or chosen if name in chosen]
    results = measured({name: partial(in_folder, measure) for name, measure in chosen.items()}, only, options.json)
    missed = report(results, "The dashboard", options.json)
    print(markdown(results))
    return missed


if __name__ == "__main__":
    sys.exit(main())
