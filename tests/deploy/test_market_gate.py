"""The gate of market worlds lets pass what is better on unseen bars by more than luck, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.deploy import market_gate as market
from rookery.deploy.comparison import History
from rookery.deploy.gates import GateResult
from rookery.deploy.market_conditions import Limits
from rookery.deploy.market_gate import last_segment, market_gate, seen_bars
from rookery.deploy.registry import Registry
from rookery.errors import OptionError
from rookery.studies.storage.study_view import StudyView
from rookery.studies.storage.trial_view import TrialView
from rookery.studies.trials.market_plan import FIGURES
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.records import MarketFacts
from rookery.training.storage.run_dir import RunDir

BARS = 600
FACTS = MarketFacts(300, "24/7", 105_120.0, "a year of bars", "none", ())


def study(trials: int = 12, spread: float = 1.0, state: Any = "finished") -> StudyView:
    """Trials that differ in what they are worth, so that the best one is not a luck."""
    found = [
        TrialView(k, state, spread * k, (spread * k,), parts={f"fold-{n}": {"value": spread * k} for n in range(6)})
        for k in range(trials)
    ]
    return StudyView("study", None, "study.db", True, found, {"search": {}})


def account(agent: float, spread: float = 0.001, hold: float = 0.0, seed: int = 1) -> JoinedAccount:
    """An account with this mean return per bar in units of its standard deviation, beside one of holding."""
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(2, 900))
    draws = (draws - draws.mean(axis=1, keepdims=True)) / draws.std(axis=1, keepdims=True)
    curves = {
        name: 1e5 * np.cumprod(np.concatenate([[1.0], 1 + size * (noise + mean)]))
        for name, noise, mean, size in (("agent", draws[0], agent, spread), ("hold", draws[1], hold, 0.001))
    }
    nothing = np.zeros(900)
    return JoinedAccount(np.arange(901), {**curves, "equal_weight": curves["hold"]}, nothing, nothing, {}, nothing, {})


@pytest.fixture(autouse=True, scope="module")
def without_compiling() -> Iterator[None]:
    """The worlds run as plain Python: compiling them would take longer than all these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rookery.kernel.runner.load_native", lambda: None)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A tiny run, for its windows."""
    return train(tmp_path_factory.mktemp("runs"))


def train(folder: Path, name: str = "candidate", **options: Any) -> RunDir:
    write(synthesise(2, BARS, "5m", seed=3, kind="crypto"), folder / "bars.parquet")
    options = {"data": str(folder / "bars.parquet"), "columns": "close", "lookback": 2, **options}
    result = rookery.train(
        "crypto", steps=32, num_envs=2, runs_dir=folder, name=name, world_options=options, verbose=False,
        ppo={"rollout_length": 16, "hidden": [4], "threads": 1}, monitor={"report": False, "system": False},
        evaluation={"episodes": 1, "every": 10_000},
    )  # fmt: skip
    return RunDir(result.path)


def decide(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, mine: JoinedAccount, champion: JoinedAccount | None = None,
    comparisons: int = 0, of: StudyView | None = None, **limits: Any,
) -> GateResult:  # fmt: skip
    """The gate's decision about these accounts."""
    accounts = iter([mine] if champion is None else [mine, champion])
    monkeypatch.setattr(market, "played", lambda *_: (next(accounts), FACTS))
    rival = None if champion is None else run
    result = market_gate(run, rival, study=of or study(), comparisons=comparisons, limits=Limits(**limits))
    json.dumps(result.as_json(), allow_nan=False)
    assert len(result.reasons) == (6 if champion is None else 7)
    return result


def failed(result: GateResult) -> list[str]:
    """The conditions that did not hold, by a word of each."""
    words = ("has seen", "drawdown", "drift", "deflated", "overfitting", "champion on the same bars", "of holding")
    marks = zip(result.reasons, result.figures["conditions"], strict=True)
    wrong = [reason for reason, passed in marks if not passed]
    return [next(word for word in words if word in reason) for reason in wrong]


@pytest.mark.slow
def test_a_clear_winner_passes_with_and_without_a_champion(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = decide(run, monkeypatch, account(0.2))
    assert alone.passed and not failed(alone)
    assert alone.figures["champion"] is None and alone.figures["deflated_sharpe"] > 0.97
    beside = decide(run, monkeypatch, account(0.3), account(0.1, seed=2))
    assert beside.passed and beside.figures["champion_p_value"] < 0.01


def test_a_champion_that_is_as_good_stays(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    equal = decide(run, monkeypatch, account(0.2), account(0.2, seed=2))
    assert failed(equal) == ["champion on the same bars"] and not equal.passed
    by_luck = decide(run, monkeypatch, account(0.2), account(0.17, seed=2))
    assert failed(by_luck) == ["champion on the same bars"], "a Sharpe ratio higher by 10 a year, on 900 bars"
    by_little = decide(run, monkeypatch, account(0.3), account(0.1, seed=2), margin=100.0)
    assert failed(by_little) == ["of holding", "champion on the same bars"]


def test_each_challenger_on_the_same_bars_needs_a_clearer_difference(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, champion = account(0.3), account(0.16, seed=2)
    first, later = (decide(run, monkeypatch, mine, champion, comparisons=count) for count in (0, 30))
    assert first.passed and failed(later) == ["champion on the same bars"]


def test_what_only_holds_does_not_pass(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a rising market holding has a high Sharpe ratio, and so has an agent that does the same."""
    rising = account(0.2, hold=0.2)
    same = replace(rising, equity={**rising.equity, "agent": rising.equity["hold"]})
    assert set(failed(decide(run, monkeypatch, same))) == {"of holding", "drift", "deflated"}


def test_less_of_a_falling_market_is_not_worth_anything(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that holds the market every other bar has a better Sharpe ratio than holding, and knows nothing."""
    falling = account(0.0, hold=-0.3)
    moves = falling.returns("hold")
    half = 1e5 * np.cumprod(np.concatenate([[1.0], 1 + moves * (np.arange(900) % 2)]))
    result = decide(run, monkeypatch, replace(falling, equity={**falling.equity, "agent": half}))
    assert result.figures["candidate"]["sharpe"] > result.figures["hold"]["sharpe"] + 10
    assert set(failed(result)) == {"drift", "deflated"}


def test_only_comparisons_on_the_last_segment_make_it_harder(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has chosen none of the trials, however many there were."""
    found = [decide(run, monkeypatch, account(0.16), comparisons=count, of=study(2)) for count in (0, 20, 2000)]
    chances = [each.figures["deflated_sharpe"] for each in found]
    assert chances == sorted(chances, reverse=True) and found[0].passed
    assert "deflated" in failed(found[2])
    many = decide(run, monkeypatch, account(0.16), of=study(2002))
    assert many.figures["deflated_sharpe"] == chances[0]


def test_folds_are_deflated_by_all_trials(run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = {"sharpe_per_bar": 0.04, "observations": 10_000, "skewness": 0.0, "kurtosis": 3.0}
    (tmp_path / "folds").mkdir()
    (tmp_path / "folds" / FIGURES).write_text(json.dumps(moments))

    def of(trials: int) -> StudyView:
        parts = {f"fold-{n}": {"value": 1.0, "run": "folds"} for n in range(6)}
        found = [TrialView(k, "finished", k, (float(k),), parts=parts) for k in range(trials)]
        return StudyView("study", tmp_path, "study.db", True, found, {"search": {}})

    few, many = (decide(run, monkeypatch, account(0.05), of=of(count), most_overfitting=1.0) for count in (1, 500))
    assert few.figures["last_segment_chance"] == many.figures["last_segment_chance"] < 0.97
    assert few.figures["fold_chance"] > many.figures["fold_chance"]
    assert few.figures["deflated_sharpe"] > few.figures["last_segment_chance"]
    assert few.figures["least_sharpe"] < many.figures["least_sharpe"]
    assert few.passed


def test_a_study_whose_best_is_luck_does_not_pass(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.where(np.eye(4) > 0, 10.0, -1.0)
    rows = [
        [groups[k, list(pair)].mean() for pair in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))] for k in range(4)
    ]
    trials = [
        TrialView(k, "finished", 1.0, (1.0,), parts={f"fold-{n}": {"value": v} for n, v in enumerate(row)})
        for k, row in enumerate(rows)
    ]
    luck = StudyView("study", None, "study.db", True, trials, {"search": {}})
    result = decide(run, monkeypatch, account(0.2), of=luck)
    assert failed(result) == ["overfitting"] and result.figures["overfitting_probability"] == 1.0
    assert decide(run, monkeypatch, account(0.2), of=luck, most_overfitting=1.0).passed


def test_trials_that_are_all_good_may_differ_by_luck(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that has found where good settings are makes many of them."""
    rows = 40.0 + np.random.default_rng(3).normal(size=(4, 6))
    rows[0] = [50.0, 30.0, 50.0, 30.0, 50.0, 30.0]
    trials = [
        TrialView(k, "finished", 40.0, (40.0,), parts={f"fold-{n}": {"value": v} for n, v in enumerate(row)})
        for k, row in enumerate(rows.tolist())
    ]
    for less, passes in ((0.0, True), (39.0, False)):
        lower = [
            replace(trial, parts={name: {"value": part["value"] - less} for name, part in trial.parts.items()})
            for trial in trials
        ]
        result = decide(
            run, monkeypatch, account(0.2), of=StudyView("study", None, "", True, lower), most_overfitting=0.1
        )
        assert result.figures["overfitting_probability"] > 0.1
        assert result.passed is passes


def test_trials_without_folds_do_not_pass_and_a_single_trial_was_not_chosen(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = StudyView("study", None, "", True, [TrialView(k, "finished", 1.0, (1.0,)) for k in range(3)])
    result = decide(run, monkeypatch, account(0.2), of=plain)
    assert not result.passed and failed(result) == ["overfitting"]
    assert decide(run, monkeypatch, account(0.2), of=study(1)).passed


def test_a_deep_drawdown_does_not_pass(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = account(0.12, spread=0.03)
    assert "drawdown" in failed(decide(run, monkeypatch, deep))
    assert "drawdown" not in failed(decide(run, monkeypatch, deep, drawdown_factor=1000.0))


def test_an_account_that_never_moved_does_not_pass(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    still = account(0.0, spread=0.0, hold=-0.2)
    assert failed(decide(run, monkeypatch, still)) == ["drift", "deflated"]


def test_a_negative_count_of_comparisons_is_refused(run: RunDir) -> None:
    with pytest.raises(OptionError, match="comparisons = -1"):
        market_gate(run, None, study=study(), comparisons=-1)


def test_the_last_segment_is_the_split_test(run: RunDir) -> None:
    segment = last_segment(run)
    assert segment.bars == round(0.15 * BARS)
    assert segment.end - segment.start == 300 * (segment.bars - 1)
    assert seen_bars(run, segment) == 0
    assert segment.key.startswith(segment.data_hash) and str(segment.start) in segment.key


def test_a_run_that_was_trained_on_the_last_segment_is_refused(tmp_path: Path) -> None:
    everything = train(tmp_path, "everything", split="all")
    result = market_gate(everything, None, study=study(), comparisons=0)
    assert not result.passed and result.figures["seen_bars"] == 90
    assert "has seen 90 of them" in result.reasons[0]


@pytest.mark.slow
def test_a_champion_with_other_columns_and_costs_plays_the_same_bars(run: RunDir, tmp_path: Path) -> None:
    """It pays what the candidate pays, and its own bars need not be there any more."""
    champion = train(tmp_path, "champion", columns="close,volume", lookback=4, fee=0.5)
    shutil.move(tmp_path / "bars.parquet", tmp_path / "gone.parquet")
    result = market_gate(run, champion, study=study(), comparisons=0)
    figures = result.figures
    assert figures["champion"]["seen_bars"] is None
    assert figures["champion"]["total_return"] > -0.5  # with its own fee it would have lost nearly everything
    again = market_gate(run, champion, study=study(), comparisons=0)
    assert again == result


def test_comparisons_on_bars_that_were_added_to_since_count(tmp_path: Path) -> None:
    """Data that grow every night have another hash every night, and mostly the same last segment."""
    registry = Registry.create(tmp_path / "deployed")
    for segment in ("aa:1000-2000", "aa:1000-2000", "bb:1900-2900", "cc:2901-4000"):
        registry.note("compare", {"gate": "market", "segment": segment}, version=None, champion=None)
    registry.note("compare", {"gate": "episodes", "seed": 3}, version=None, champion=None)
    history = History(registry)
    assert [history.comparisons_on(key) for key in ("aa:1000-2000", "dd:1950-2950", "ee:5000-6000")] == [3, 4, 0]
