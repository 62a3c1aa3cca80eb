"""`rookery study`: a study to look at, to draw, and to take the best settings from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.errors import OptionError
from rookery.studies.report.config_export import ExportedConfig, exported_config, write_config
from rookery.studies.report.importances import Method
from rookery.studies.report.report import Reporter, StudyReport, report_json
from rookery.studies.report.report_text import report_text, table
from rookery.studies.storage.study_view import open_study

FILE_WIDTH = 160  # columns of a report that goes to a file or a pipe


@dataclass(frozen=True, repr=False)
class Study(StudyReport):
    """Returned by `rookery.study`: the study, its figures, and how much each setting matters."""

    @property
    def best_value(self) -> float | None:
        """On held-out seeds if the best trial was verified, else on tuning seeds."""
        return self.as_json()["best_value"]

    @property
    def best_params(self) -> Mapping[str, Any] | None:
        """The settings of the best trial."""
        return None if self.study.chosen is None else self.study.chosen.settings

    def __repr__(self) -> str:
        return f"Study({self.study.name}: {len(self.study.trials)} trials, best {self.best_value}, {self.best_params})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return report_json(self)

    def print(self, top: int = 5) -> None:
        """Print it as tables, with so many of the best trials."""
        from rookery import printing

        out = printing.console()
        if not out.is_terminal:
            out.width = FILE_WIDTH
        out.print(report_text(self, out.width, top))

    def plot(self, folder: str | Path | None = None) -> list[Path]:
        """Draw it into a folder (`plots` in the study's own); returns the files."""
        from rookery.studies.report.study_plots import draw_plots

        if not folder and self.study.folder is None:
            raise OptionError("this study has no folder of its own: name one for the plots, such as --plot plots")
        place = Path(folder) if folder or self.study.folder is None else self.study.folder / "plots"  # type: ignore[arg-type]
        return draw_plots(self, place)

    def write_config(
        self,
        path: str | Path,
        trial: int | None = None,
        *,
        world: str | None = None,
        learner: str | None = None,
        overwrite: bool = False,
    ) -> ExportedConfig:
        """Write the settings of the best trial, or of another one, as a configuration for `rookery.train`. World and
        learner are needed for a study that rookery did not make."""
        exported = exported_config(self.study, trial, world=world, learner=learner)
        write_config(exported, Path(path), overwrite=overwrite)
        return exported


def study(
    name: str | Path,
    studies_dir: str | Path = "studies",
    storage: str | None = None,
    *,
    importances: Method = "ped-anova",
) -> Study:
    """A study: its trials, the best settings, what matters. Nothing is written to it, so that a search can continue.

    Args:
        name: Its name, its folder, a SQLite file or journal of Optuna, or the URL of a database.
        studies_dir: The folder of the studies.
        storage: The database of the study, if it is not in the study's folder.
        importances: How importances are computed: "ped-anova", or "fanova", which needs scikit-learn.
    """
    return Study(**vars(Reporter(importances).report(open_study(name, studies_dir, storage))))


def list_studies(studies_dir: str | Path = "studies") -> list[dict[str, Any]]:
    """All studies of a folder, as dicts: their names, trials, best values and states."""
    return table(studies_dir)
