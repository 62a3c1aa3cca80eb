"""Trials of market worlds: folds that never meet the last segment, and what their values are made of."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.config import RunConfig, build_config
from rookery.config.sections import SearchOptions
from rookery.data.dataset import Bars, Dataset
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.errors import OptionError
from rookery.performance.ratios import sharpe
from rookery.studies.trials.market_plan import (
    CrossValidationPlan,
    embargo_of,
    groups_by_fold,
    least_shown,
    market_folds,
    market_of,
    read_figures,
)
from rookery.studies.trials.plans import TrialPart, plan_for
from rookery.training.backtest.backtest import world_to_test
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.storage.run_dir import RunDir

BARS = 800
SMALL: dict[str, Any] = {"rollout_length": 16, "hidden": [8], "epochs": 1, "minibatches": 1, "threads": 1}


def later(bars: Bars, first: int) -> Bars:
    """The same symbol without its first bars."""
    return Bars(bars.symbol, bars.times[first:], {name: values[first:] for name, values in bars.columns.items()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bars of two markets; in forex one symbol begins later than the other."""
    place = tmp_path_factory.mktemp("bars")
    write(synthesise(2, BARS, "5m", seed=3, kind="crypto"), place / "crypto.parquet")
    pairs = synthesise(bars=BARS, timeframe="1h", seed=3, kind="forex", symbols=("EURUSD", "GBPUSD"))
    shifted = Dataset((pairs.bars[0], later(pairs.bars[1], 90)), pairs.timeframe, pairs.calendar, history=pairs.history)
    write(shifted, place / "forex.parquet")
    return place


def config_of(folder: Path, world: str = "crypto", search: dict[str, Any] | None = None, **options: Any) -> RunConfig:
    columns = "close,volume"
    return build_config({
        "world": world, "learner": "ppo", "name": "trial-00000", "runs_dir": str(folder / "runs"), "steps": 64,
        "num_envs": 2, "ppo": SMALL, "search": search or {}, "monitor": {"verbose": False, "system": False},
        "world_options": {"data": str(folder / f"{world}.parquet"), "columns": columns, "costs": "none", **options},
    })  # fmt: skip


def plan_of(config: RunConfig) -> CrossValidationPlan:
    plan = plan_for(config)
    assert isinstance(plan, CrossValidationPlan)
    return plan


def rows_of(world: Any, lookback: int) -> set[int]:
    """The times of all bars that a world's windows use: those that are observed, traded or valued."""
    shown = [np.arange(max(0, a - lookback + 1), b + 1) for a, b in world.windows]
    return set(np.asarray(world.market.times)[np.concatenate(shown)].tolist())


def last_segment(config: RunConfig) -> set[int]:
    """The times in the windows of the split "test", without what an observation looks back to."""
    world: Any = world_to_test(config, {"split": "test"}).kernel_world
    return set(np.asarray(world.market.times)[np.concatenate([np.arange(a, b + 1) for a, b in world.windows])].tolist())


def worlds_of(part: TrialPart) -> dict[str, Any]:
    """The worlds in which a part's run trains and evaluates, as `rookery.train` makes them."""
    run = resolve_run(part.config)
    return {"train": run.env_world.kernel_world, "evaluation": run.world.kernel_world}


VARIANTS = list(product(("crypto", "forex"), (1, 7, 60), (0, 20)))


@pytest.mark.parametrize(("world", "lookback", "embargo"), VARIANTS)
def test_no_window_of_a_trial_has_a_bar_of_the_last_segment(
    folder: Path, world: str, lookback: int, embargo: int
) -> None:
    config = config_of(folder, world, {"embargo": embargo, "folds": 3, "verify_seeds": 1}, lookback=lookback)
    plan = plan_of(config)
    last = last_segment(config)
    assert len(last) > 0.1 * BARS
    for part in [*plan.first_parts(config), *plan.verify_parts(config)]:
        for name, made in worlds_of(part).items():
            assert not rows_of(made, lookback) & last, (part.name, name)
        tested: Any = world_to_test(part.config, {"split": plan.tested(part)}).kernel_world
        assert not rows_of(tested, lookback) & last
        assert part.config.monitor.report is False  # it would play the last segment


@pytest.mark.parametrize(("world", "lookback", "embargo"), VARIANTS)
def test_a_fold_trains_on_no_bar_that_it_is_tested_on(folder: Path, world: str, lookback: int, embargo: int) -> None:
    """Nor does an observation in training show such a bar."""
    config = config_of(folder, world, {"embargo": embargo, "folds": 3}, lookback=lookback)
    plan = plan_of(config)
    for part in plan.first_parts(config):
        tested: Any = world_to_test(part.config, {"split": plan.tested(part)}).kernel_world
        times = np.asarray(tested.market.times)
        bars = set(times[np.concatenate([np.arange(a, b + 1) for a, b in tested.windows])].tolist())
        for made in worlds_of(part).values():
            assert bars and not rows_of(made, lookback) & bars


def test_the_usual_folds_are_six_with_fifty_bars_between(folder: Path) -> None:
    config = config_of(folder)
    folds = market_folds(config, SearchOptions())
    assert len(folds) == 6 == len(groups_by_fold(4))
    parts = plan_of(config).first_parts(config)
    assert [part.run_name for part in parts] == [f"trial-00000-fold-{k}" for k in range(6)]
    assert len({part.config.seed for part in parts}) == 6
    end = max(int(fold.test.max()) for fold in folds)
    assert end == round(0.85 * BARS) - 50
    for fold in folds:
        for _, stop in fold.test:
            after = [first for first, _ in fold.train if first >= stop]
            assert all(first - stop >= 50 for first in after)
        assert fold.train.max() <= end


def test_the_embargo_follows_from_the_features(folder: Path) -> None:
    """A regime of 120 bars would show an agent in training the bars of a test."""
    config = config_of(folder, columns="close,volatility_regime", lookback=3)
    assert embargo_of(market_of(config), SearchOptions(embargo=50)) == 123
    assert embargo_of(market_of(config), SearchOptions(embargo=200)) == 200
    plain = config_of(folder, columns="close,rsi_14", lookback=3)
    assert embargo_of(market_of(plain), SearchOptions(embargo=0)) == 17


def test_the_sharpe_ratio_that_bars_can_show_is_said_beforehand(folder: Path) -> None:
    few, many = (least_shown(config_of(folder, search={"n_trials": trials})) for trials in (2, 500))
    found = [float(text.split("Sharpe ratio of ")[1].split()[0]) for text in (few, many)]
    assert found[0] < found[1] and "500 trials" in many


def test_the_last_segment_is_the_same_for_every_lookback(folder: Path) -> None:
    """Else one trial would see what another is later compared on."""
    starts = {min(last_segment(config_of(folder, lookback=lookback))) for lookback in (1, 3, 60)}
    assert len(starts) == 1


@pytest.mark.slow
def test_the_value_is_the_sharpe_ratio_above_holding_on_the_tests(folder: Path) -> None:
    config = config_of(folder, search={"folds": 2, "embargo": 10})
    plan = plan_of(config)
    part = plan.first_parts(config)[1]
    result = rookery.train(part.config)
    run = RunDir(result.path)
    assert run.name == part.run_name and not run.report.exists()
    report = rookery.backtest(result.path, split=plan.tested(part))
    value = plan.value(part, run)
    assert value == pytest.approx((report["agent"]["sharpe"] or 0.0) - report["hold"]["sharpe"])
    assert plan.value(part, run) == value  # asking again changes nothing
    figures = read_figures(run.path)
    assert figures is not None and figures["observations"] == len(report.account)
    hold = sharpe(report.account.returns("hold"), figures["periods_per_year"])
    assert figures["hold_sharpe"] == pytest.approx(hold)


def test_the_total_is_the_mean_less_a_tenth_of_the_spread(folder: Path) -> None:
    plan = plan_of(config_of(folder))
    values = {"fold-0": 1.0, "fold-1": 3.0}
    assert plan.total(values) == pytest.approx(2.0 - 0.1)
    low, high = plan.interval(values) or (0.0, 0.0)
    assert low < plan.total(values) < high
    assert plan.more_parts(config_of(folder), values, []) == []
    assert plan.interval({"verify-1000": 1.0}) is None  # one value says nothing about others


def test_verification_has_seeds_of_its_own_and_is_judged_on_validation(folder: Path) -> None:
    config = config_of(folder, search={"verify_seeds": 3})
    plan = plan_of(config)
    parts = plan.verify_parts(config)
    assert [part.name for part in parts] == ["verify-1000", "verify-1001", "verify-1002"]
    assert {plan.tested(part) for part in parts} == {"validation"}
    assert all(part.config.world_options["split"] == "train" for part in parts)


@pytest.mark.parametrize("option", [{"split": "all"}, {"split": [[0, 700]]}, {"evaluation_split": "test"}])
def test_own_splits_are_refused(folder: Path, option: dict[str, Any]) -> None:
    config = config_of(folder, **option)
    with pytest.raises(OptionError, match="omit this option"):
        plan_of(config).first_parts(config)
    with pytest.raises(OptionError, match="omit this option"):
        plan_of(config).verify_parts(config)


@pytest.mark.parametrize(
    "search", [{"folds": 1000}, {"folds": 60}, {"embargo": 300}, {"embargo": 5000}, {"folds": 4, "embargo": 160}]
)
def test_too_few_bars_for_the_folds_are_an_error_that_says_what_to_do(folder: Path, search: dict[str, Any]) -> None:
    config = config_of(folder, search=search)
    with pytest.raises(OptionError, match=r"800 bars are too few for search\.folds = \d+ .* take more bars"):
        plan_of(config).first_parts(config)


@pytest.mark.parametrize(
    ("search", "message"),
    [({"embargo": 5000}, "too few"), ({"pruner": "median"}, "wilcoxon"), ({"pruner": "hyperband"}, "wilcoxon")],
)
def test_a_search_that_cannot_be_judged_is_refused_before_it_begins(
    folder: Path, tmp_path: Path, search: dict[str, Any], message: str
) -> None:
    config = config_of(folder, search={**search, "studies_dir": str(tmp_path / "studies"), "study_name": "none"})
    with pytest.raises(OptionError, match=message):
        rookery.search(config)
    assert not (tmp_path / "studies").exists()


def test_one_group_cannot_be_cross_validated(folder: Path) -> None:
    config = config_of(folder, search={"folds": 1})
    with pytest.raises(OptionError, match=r"search\.folds = 1"):
        plan_of(config).first_parts(config)


def test_a_world_without_bars_is_refused() -> None:
    config = build_config({"world": "CartPole-v1", "name": "trial-00000"})
    assert not isinstance(plan_for(config), CrossValidationPlan)
    with pytest.raises(OptionError, match="not a market world"):
        CrossValidationPlan(config.search).first_parts(config)


def test_evaluations_that_the_user_asks_for_are_kept(folder: Path) -> None:
    """Else there is one, at the end, so that no checkpoint is chosen."""
    config = config_of(folder)
    asked = config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"every": 32})})
    assert plan_of(config).first_parts(asked)[0].config.evaluation.every == 32
    assert plan_of(config).first_parts(config)[0].config.evaluation.every > 10**9
