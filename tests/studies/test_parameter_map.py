"""The map of a study's two most important parameters, and which of its cells are more than luck."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.studies.report import study_plots
from rookery.studies.report.parameter_plots import plot_parameters
from rookery.studies.report.report import Reporter
from rookery.studies.report.study_plots import draw_plots, parameter_cells, sure_cells
from studies.test_study_report import trial, view


def study_report(trials: int = 60):
    """The value is 1 where x is above 0.5 and the kind is "b"."""
    rng = np.random.default_rng(1)
    made = []
    for number in range(trials):
        params = {"x": float(rng.random()), "kind": "ab"[number % 2]}
        good = params["x"] > 0.5 and params["kind"] == "b"
        made.append(trial(number, float(good) + 0.01 * rng.random(), params=params, settings=params))
    return Reporter().report(view(*made))


def test_every_trial_is_in_the_cell_of_its_parameters() -> None:
    report = study_report()
    first, second = plot_parameters(report, report.study.comparable, 2)
    borders, cells = parameter_cells(report, (first, second))
    assert sum(map(len, cells.values())) == 60
    for (column, row), trials in cells.items():
        for each in trials:
            for border, at, parameter in ((borders[0], column, first), (borders[1], row, second)):
                assert border[at] <= parameter.place(each) <= border[at + 1]


def test_only_cells_that_are_more_than_luck_are_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    report = study_report()
    cells = parameter_cells(report, tuple(plot_parameters(report, report.study.comparable, 2)))[1]  # type: ignore[arg-type]
    assert sure_cells(report, cells) == set()  # no fold is recorded
    monkeypatch.setattr(study_plots, "fold_chance", lambda study, each: 0.96 if each.values[0] > 1 else 0.94)
    sure = sure_cells(report, cells)
    assert 0 < len(sure) < len(cells)
    assert all(max(each.values[0] for each in cells[place]) > 1 for place in sure)


@pytest.mark.slow
def test_the_map_is_drawn_of_enough_trials(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert "map.png" in {path.name for path in draw_plots(study_report(12), tmp_path)}
    (tmp_path / "few").mkdir()
    assert "map.png" not in {path.name for path in draw_plots(study_report(5), tmp_path / "few")}
