"""The command `report`: the dashboard's views of runs as one file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from rookery.cli.arguments import check_file, runs_dir_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import print_path
from rookery.console import meanwhile
from rookery.errors import MissingExtra, OptionError


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "report", _report, "write the dashboard's pages of runs to one HTML file, to send to someone",
        "The file needs neither rookery nor a network: curves, bands over seeds, evaluations, where time went, "
        "episodes, settings, notes and backtests are in it. Videos and checkpoints are not.",
        "rookery report first second --html comparison.html",
    )  # fmt: skip
    parser.add_argument("names", metavar="RUN", nargs="+", help="names of runs, their folders, or latest")
    parser.add_argument("--html", metavar="FILE", default="report.html", help="the file to write (report.html)")
    runs_dir_argument(parser)


def _report(options: argparse.Namespace) -> int:
    from rookery.training.storage.run_dir import RunDir

    file = Path(options.html)
    if file.suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"--html should end in .html, got {options.html}")
    check_file(options.html)
    found = [RunDir.find(name, Path(options.runs_dir)) for name in options.names]
    runs = list({run.path.resolve(): None for run in found})
    with meanwhile("reading runs ..."):
        _writer()(runs, file)
    return print_path(file, options.json)


def _writer() -> Callable[[Sequence[Path], Path], int]:
    try:
        from rookery.web.html_report import write_report
    except ImportError as error:
        raise MissingExtra(
            f"a report is made of the dashboard's pages, for which {error.name} is missing: pip install 'rookery[web]'"
        ) from None
    return write_report
