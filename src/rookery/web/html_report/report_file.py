"""Writes a report of runs: one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rookery.files import replace_file
from rookery.web.html_report.inlined_page import inlined_page
from rookery.web.html_report.recorded_answers import record_answers


def write_report(runs: Sequence[Path], file: Path) -> int:
    """Write the views of these runs to one file, which needs nothing else. Returns its size in bytes."""
    names = ", ".join(run.name for run in runs[:3]) + (", …" if len(runs) > 3 else "")
    page = inlined_page(record_answers(runs), f"rookery: {names}").encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, [page])
    return len(page)
