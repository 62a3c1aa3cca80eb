"""Agents in the fixed windows of a market world."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import rookery
from rookery.errors import OptionError, UsageError
from rookery.gate import allow_given
from rookery.training.backtest.backtest import seen_notes
from rookery.training.backtest.joined_account import hold
from rookery.training.backtest.recording import record_windows
from rookery.training.resolve.world_choice import find
from training.backtest.recorded import HOUR, START, agent_for
from training.backtest.small_market import ROWS, SmallMarket

WORLD = f"{Path(__file__).parent / 'small_market.py'}:SmallMarket"


@pytest.fixture(autouse=True, scope="module")
def without_compiling():
    """The world runs as plain Python: compiling it would take longer than all these tests."""
    allow_given(WORLD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rookery.kernel.runner.load_native", lambda: None)
        yield


@pytest.fixture(scope="module")
def recorded(without_compiling):
    return record_windows(find(WORLD), agent_for(SmallMarket))


def test_each_window_is_played_to_its_end(recorded):
    records, _ = recorded
    assert [(record.symbols, len(record)) for record in records] == [
        (("EURUSD",), 58), (("EURUSD",), 49), (("USDJPY",), 117),
    ]  # fmt: skip
    assert records[0].times.tolist() == (START + HOUR * np.arange(2, 61)).tolist()
    assert records[2].times[-1] == START + HOUR * (ROWS - 1)
    assert all(len(record.equity) == len(record) + 1 and record.equity[0] == 1000 for record in records)
    assert all(record.trades.sum() > 2 for record in records)
    assert not any(record.ruined for record in records)


def test_the_books_balance(recorded):
    """The equity changes by what prices do to the position, less the costs."""
    for record in recorded[0][:2]:
        held = record.positions[:, 0]
        before = np.concatenate([[0.0], held[:-1]])
        gained = (
            before * (record.opens[1:, 0] - record.closes[:-1, 0]) + held * (record.closes[1:] - record.opens[1:])[:, 0]
        )
        paid = sum(record.costs.values())
        assert np.diff(record.equity) == pytest.approx(gained - paid)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_window_does_not_depend_on_the_others(deterministic):
    """Each one alone gives the same numbers, bit for bit, also with sampled actions."""
    world, agent = find(WORLD), agent_for(SmallMarket)
    together, _ = record_windows(world, agent, deterministic=deterministic, seed=3)
    assert len({record.equity[-1] for record in together}) == 3
    for number, expected in enumerate(together):
        (alone,), _ = record_windows(world, agent, deterministic=deterministic, seed=3, windows=[number])
        for name in ("equity", "positions", "rewards", "turnover"):
            assert np.array_equal(getattr(alone, name), getattr(expected, name))


def test_holding_is_what_the_world_itself_would_do():
    """An agent that is always long has the same account as hold, also in yen and with swap."""

    agent = agent_for(SmallMarket)
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter.zero_()
        last = [p for p in agent.policy.parameters() if p.shape == (3,)][-1]
        last[2] = 10.0
    records, _ = record_windows(find(WORLD), agent)
    for record in records:
        assert record.trades.sum() == 1
        assert hold(record)[1:] == pytest.approx(record.equity[1:], rel=2e-4)


def test_facts_of_the_market(recorded):
    _, facts = recorded
    assert (facts.timeframe, facts.calendar, facts.synthetic, facts.source) == (HOUR, "forex", True, "small")
    assert facts.costs_name == "own" and facts.costs_rates == ("fee 0.02 % of each trade",)


def test_a_changed_rate_is_said():
    _, facts = record_windows(find(WORLD, options={"fee": 0.001}), agent_for(SmallMarket))
    assert facts.costs_name == "own, changed" and facts.costs_rates[-1] == "but fee 0.1 %"


def test_an_agent_of_another_world_is_refused():
    from rookery.worlds.classic import CartPole

    with pytest.raises(OptionError, match="the agent observes Box"):
        record_windows(find(WORLD), agent_for(CartPole))


def test_a_world_without_bars_is_refused():
    from rookery.worlds.classic import CartPole

    with pytest.raises(OptionError, match="is not a market world: a backtest needs its `market`"):
        record_windows(find("rookery/CartPole-v1"), agent_for(CartPole))
    with pytest.raises(OptionError, match="is not a market world that can be backtested"):
        record_windows(find("CartPole-v1", compiled=False), agent_for(CartPole))


def test_an_agent_as_an_object(tmp_path):
    report = rookery.backtest(agent_for(SmallMarket), world=WORLD, split="test", out=tmp_path)
    assert report["split"] == "test" and report["data"]["windows"] == 2
    assert report["verdict"].startswith("Beats hold after costs: ")
    assert (tmp_path / "report.html").is_file()
    with pytest.raises(UsageError, match="needs the agent's world"):
        rookery.backtest(agent_for(SmallMarket))
    with pytest.raises(OptionError, match="checkpoint should be one of best, latest"):
        rookery.backtest(agent_for(SmallMarket), world=WORLD, checkpoint="newest")


@pytest.mark.parametrize(
    ("options", "split", "words"),
    [
        ({}, "test", None),
        ({}, "validation", "checkpoint was chosen on bars"),
        ({}, "train", "was trained on bars"),
        ({}, "all", "was trained on bars"),
        ({"split": "all"}, "test", "was trained on bars"),
        ({"split": [[0, 100]]}, "test", "is not known"),
        ({"evaluation_split": "test"}, "test", "checkpoint was chosen on bars"),
    ],
)
def test_bars_that_the_agent_knows_are_named(options, split, words):
    found = seen_notes(options, split)
    assert (found == []) if words is None else (words in found[0])
