"""The studies of a folder as rows of a table. One that cannot be read does not hide the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import RookeryError
from rookery.studies.report.report_tables import value_text
from rookery.studies.report.study_figures import study_figures
from rookery.studies.storage.study_place import study_folders
from rookery.studies.storage.study_view import open_study

HEADINGS = ("study", "world", "learner", "trials>", "running>", "failed>", "best value>", "verified>", "last trial")


def table(studies_dir: str | Path = "studies") -> list[dict[str, Any]]:
    """One row per study, by name; `error` says why a study cannot be read."""
    return [_row(folder) for folder in study_folders(studies_dir)]


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the rows."""
    from rookery import printing

    shown = printing.table("", *HEADINGS)
    for row in (row for row in rows if not row["error"]):
        total = f"{row['ended']:,}" + (f" of {row['n_trials']:,}" if row["n_trials"] else "")
        cells = [row["study"], row["world"] or "-", row["learner"] or "-", total, f"{row['running']:,}"]
        cells += [f"{row['failed']:,}", value_text(row["best_value"]), value_text(row["verified_value"])]
        shown.add_row(*cells, row["last"] or "-")
    out = printing.console()
    if shown.row_count:
        printing.print_table(out, shown)
    for row in (row for row in rows if row["error"]):
        out.print(f"{row['study']}: {row['error']}", soft_wrap=True)


def _row(folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"study": printable(folder.name), "path": str(folder), "error": None}
    try:
        study = open_study(folder)
    except RookeryError as error:
        return {**row, "error": printable(error)}
    figures, config = study_figures(study), study.config or {}
    best, verified = study.best, study.best_verified
    moments = [moment for trial in study.trials for moment in (trial.started, trial.ended) if moment is not None]
    return {
        **row,
        "world": None if config.get("world") is None else printable(config["world"]),
        "learner": None if config.get("learner") is None else printable(config["learner"]),
        "ended": figures.ended,
        "n_trials": figures.n_trials,
        **{str(state): count for state, count in figures.counts.items()},
        "best_value": None if best is None else best.value,
        "verified_value": None if verified is None else verified.iqm,
        "last": max(moments).isoformat(sep=" ", timespec="minutes") if moments else None,
    }
