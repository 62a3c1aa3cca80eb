"""How much of a market study's best value is luck."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.errors import OptionError
from rookery.performance.overfitting import fold_overfitting
from rookery.performance.worth import beyond, chance_of_worth, excess_moments
from rookery.studies.report.market_overfitting import market_figures, study_overfitting, trials_tried
from rookery.studies.storage.study_view import StudyView, TrialView
from rookery.studies.trials.market_plan import BLOCKS, FIGURES, block_sums, groups_by_fold
from rookery.training.backtest.joined_account import JoinedAccount

PAIRS = groups_by_fold(4)


def study_of(values: np.ndarray, folder: Path | None = None, folds: int | None = None, **more: Any) -> StudyView:
    """A study with these values by fold, one row per trial."""
    trials = [
        TrialView(
            k, "finished", float(np.mean(row)), (float(np.mean(row)),),
            parts={f"fold-{n}": {"value": value, "run": f"runs/trial-{k}-fold-{n}"} for n, value in enumerate(row)},
        )
        for k, row in enumerate(values.tolist())
    ]  # fmt: skip
    config = {"search": {"folds": folds}}
    return StudyView("study", folder, "study.db", True, trials, config, **more)


def test_trials_of_pure_luck_are_chosen_by_luck() -> None:
    """Their best is in the worse half of the other bars about every other time."""
    rng = np.random.default_rng(1)
    groups = rng.normal(size=(300, 30, 4))  # what each trial earns in each group of bars
    found = [
        fold_overfitting(np.stack([each[:, list(g)].mean(axis=1) for g in PAIRS], axis=1), PAIRS) for each in groups
    ]
    assert 0.45 < np.mean([each.probability for each in found]) < 0.55
    assert 0.4 < np.mean([each.loss for each in found]) < 0.6


def test_trials_that_differ_in_worth_are_not() -> None:
    rng = np.random.default_rng(2)
    worth = np.linspace(-2, 4, 20)[:, None] + 0.3 * rng.normal(size=(20, 6))
    found = fold_overfitting(worth, PAIRS)
    assert found.probability == 0.0 and found.loss == 0.0


@pytest.mark.parametrize("groups", [2, 3, 4, 5, 6])
def test_any_number_of_groups_has_folds_without_common_bars(groups: int) -> None:
    tested = groups_by_fold(groups)
    values = np.random.default_rng(3).normal(size=(5, len(tested)))
    assert 0.0 <= fold_overfitting(values, tested).probability <= 1.0


def test_a_trial_that_wins_one_half_by_losing_the_other_is_overfitting() -> None:
    """Trial k earns in group k what it loses elsewhere."""
    groups = np.where(np.eye(4) > 0, 10.0, -1.0)
    values = np.stack([groups[:, list(g)].mean(axis=1) for g in PAIRS], axis=1)
    assert fold_overfitting(values, PAIRS).probability == 1.0


@pytest.mark.parametrize("values", [np.zeros((1, 6)), np.zeros((3, 5)), np.full((3, 6), np.nan)])
def test_tables_that_say_nothing_are_refused(values: np.ndarray) -> None:
    with pytest.raises(OptionError, match="at least 2 trials in 6 folds"):
        fold_overfitting(values, PAIRS)


def test_trials_without_all_folds_count_as_tried_but_are_not_compared() -> None:
    study = study_of(np.random.default_rng(4).normal(size=(3, 6)))
    pruned = TrialView(3, "pruned", parts={"fold-0": {"value": 1.0}, "fold-1": {"value": None}})
    trials = [*study.trials, pruned, TrialView(4, "failed"), TrialView(5, "running"), TrialView(6, "waiting")]
    study = StudyView("study", None, "study.db", True, trials, study.config)
    found = study_overfitting(study)
    assert found is not None and found.trials == 3
    assert trials_tried(study) == 6
    assert study_overfitting(StudyView("study", None, "", True, [pruned])) is None


def test_more_trials_deflate_more() -> None:
    account = {"sharpe_per_bar": 0.12, "observations": 900, "skewness": -0.5, "kurtosis": 6.0}
    chances = [chance_of_worth(account, trials) for trials in (0, 1, 10, 500, 5000)]
    assert chances[0] == chances[1] > 0.99
    assert chances[1:] == sorted(chances[1:], reverse=True)
    assert chances[3] < 0.95
    assert chance_of_worth({**account, "observations": 3}, 1) == 0.0


def test_the_best_of_many_worthless_accounts_is_not_believed() -> None:
    """Of 40 searches over 50 accounts without skill, hardly one passes 95 %."""
    rng = np.random.default_rng(5)
    passed = 0
    for _ in range(40):
        returns = rng.standard_t(4, size=(50, 800)) * 1e-3
        best = returns[(returns.mean(axis=1) / returns.std(axis=1)).argmax()]
        passed += chance_of_worth(excess_moments(best, np.zeros(800)), 50) >= 0.95
    assert passed <= 4


def test_less_risk_alone_earns_nothing_beyond_holding() -> None:
    rng = np.random.default_rng(6)
    hold = rng.normal(0.001, 0.01, 500)
    assert np.abs(beyond(0.3 * hold, hold)).max() < 1e-15
    assert beyond(0.3 * hold + 0.0005, hold).mean() > 0
    still = np.zeros(500)
    assert (beyond(still, hold) == 0).all() and (beyond(hold, still) == hold).all()
    assert excess_moments(0.3 * hold, hold)["sharpe_per_bar"] == 0.0


def test_the_best_of_trials_that_are_all_equal_is_luck() -> None:
    """A trial at the median is no better than an average choice, as in the paper."""
    assert fold_overfitting(np.ones((3, 6)), PAIRS).probability == 1.0


def test_overfitting_by_blocks_of_bars(tmp_path: Path) -> None:
    """Six values by fold say little; the returns of each bar in twelve blocks say more."""
    rng = np.random.default_rng(7)

    def study(worth: np.ndarray, folder: Path) -> StudyView:
        found = study_of(np.ones((len(worth), 6)), folder)
        for trial, mean in zip(found.trials, worth, strict=True):
            returns = rng.normal(mean, 1.0, 1200)
            for part, groups in zip(trial.parts.values(), PAIRS, strict=True):
                rows = np.flatnonzero(np.isin(np.arange(1200) // 300, groups))
                sums = np.zeros((BLOCKS, 3))
                np.add.at(sums, rows // 100, np.stack([np.ones(len(rows)), returns[rows], returns[rows] ** 2], axis=1))
                moments = {"sharpe_per_bar": 0.0, "observations": 600, "skewness": 0.0, "kurtosis": 3.0}
                (folder / part["run"]).mkdir(parents=True)
                (folder / part["run"] / FIGURES).write_text(json.dumps({**moments, "blocks": sums.tolist()}))
        return found

    skilled = study_overfitting(study(np.linspace(0, 0.5, 10), tmp_path / "skilled"))
    luck = [study_overfitting(study(np.zeros(10), tmp_path / f"luck{k}")) for k in range(8)]
    assert skilled is not None and skilled.probability < 0.05 and skilled.loss < 0.05 and skilled.trials == 10
    found = [each.probability for each in luck if each is not None]
    assert len(found) == 8 and 0.3 < np.mean(found) < 0.7


def test_block_sums_of_an_account() -> None:
    rng = np.random.default_rng(8)
    hold, agent = (1e5 * np.cumprod(1 + rng.normal(0, 0.01, 101)) for _ in range(2))
    nothing = np.zeros(100)
    account = JoinedAccount(np.arange(101), {"agent": agent, "hold": hold}, nothing, nothing, {}, nothing, {})
    sums = block_sums(account, np.array([0, 50, 90, 200]))
    assert sums[:, 0].tolist() == [49, 40, 11, 0]
    excess = beyond(account.returns("agent"), account.returns("hold"))
    assert sums[:, 1].sum() == pytest.approx(excess.sum()) and sums[1, 1] == pytest.approx(excess[49:89].sum())


def test_the_report_has_all_figures_once_the_folds_have_theirs(tmp_path: Path) -> None:
    study = study_of(np.linspace(1, 3, 18).reshape(3, 6), tmp_path)
    figures = market_figures(study)
    assert figures["trials"] == 3 and figures["overfitting_probability"] == 0.0
    assert figures["deflated_sharpe"] is None
    moments = {"sharpe_per_bar": 0.2, "observations": 300, "skewness": 0.0, "kurtosis": 3.0, "periods_per_year": 1e5}
    assert study.best is not None
    for part in study.best.parts.values():
        (tmp_path / part["run"]).mkdir(parents=True)
        (tmp_path / part["run"] / FIGURES).write_text(json.dumps(moments))
    assert market_figures(study)["deflated_sharpe"] == pytest.approx(
        chance_of_worth({**moments, "observations": 600}, 3)
    )
