"""`rookery report`: the dashboard's pages of runs in one HTML file, to send to someone."""

from __future__ import annotations

from pathlib import Path

from rookery.console import meanwhile
from rookery.errors import MissingExtra, OptionError
from rookery.files import check_file
from rookery.training.storage.runs_table import NamedRun, find_runs


def report(*runs: NamedRun, html: str | Path = "report.html", runs_dir: str | Path = "runs") -> Path:
    """Write the dashboard's pages of runs to one HTML file; returns its path.

    The file needs neither rookery nor a network: curves, bands over seeds, evaluations, where time went, episodes,
    settings, notes and backtests are in it. Videos and checkpoints are not.

    Args:
        runs: Results of `rookery.train`, or runs by their names, paths or as "latest".
        html: The file to write.
        runs_dir: The folder of the runs.
    """
    file = Path(html)
    if file.suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"--html should end in .html, got {html}")
    check_file(file)
    found = find_runs(runs, runs_dir)
    try:
        from rookery.web.html_report import write_report
    except ImportError as error:
        raise MissingExtra(
            f"a report is made of the dashboard's pages, for which {error.name} is missing: pip install 'rookery[web]'"
        ) from None
    with meanwhile("reading runs ..."):
        write_report(list({run.path.resolve(): None for run in found}), file)
    return file
