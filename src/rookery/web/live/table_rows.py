"""Rows of the table of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import row


def row_of(place: str, path: Path) -> dict[str, Any]:
    """The row of one run."""
    return {**row(RunDir(path)), "id": f"{place}/{path.name}", "place": place, "name": path.name}
