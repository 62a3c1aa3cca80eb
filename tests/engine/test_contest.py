"""Engines that take turns, and what `auto` makes of their rates."""

from __future__ import annotations

import json
import time
from contextlib import closing, contextmanager

import pytest

import rookery
from engine.test_autotune import measured
from rookery.engine import contest
from rookery.engine.contest import EnginePlan, Entrant, fastest, measured_choice
from rookery.engine.cost_memory import BUSY_SECONDS, recall_fastest
from rookery.engine.env_factory import resolve
from rookery.engine.machine import usable_cores

SERIAL, PROCESS = EnginePlan("serial", 8, 1), EnginePlan("process", 8, 2)


@pytest.fixture
def given_rates(monkeypatch):
    """Engines that make so many steps per second, on a machine that is half as fast at times."""

    def give(rates, slow=lambda turn: False):
        turns = []

        @contextmanager
        def entrant(source, cost, plan, start_method):
            def rate(seconds):
                turns.append(plan)
                return rates[plan] * (0.5 if slow(len(turns)) else 1.0)

            yield Entrant(rate, lambda: 0)

        monkeypatch.setattr(contest, "_entrant", entrant)
        return turns

    return give


def test_a_busy_neighbour_slows_all_alike(given_rates):
    """A program that takes half of the machine for the first third of the time does not change which one is faster."""
    plans = [EnginePlan("process", 64, 2), EnginePlan("serial", 32, 1), EnginePlan("serial", 8, 1)]
    rates = dict(zip(plans, (100.0, 70.0, 60.0), strict=True))
    turns = given_rates(rates, slow=lambda turn: turn <= 9)
    found = contest.contest(resolve("CartPole-v1"), measured(1e-5), plans, 1.0)
    assert turns[:6] == plans * 2
    share = found[0][0] / rates[plans[0]]
    assert [rate for rate, _ in found] == pytest.approx([share * rate for rate in rates.values()])


def test_fewest_envs_of_those_as_fast():
    """Within 2 % of the best rate; with as many envs, the serial loop."""
    plans = [EnginePlan("process", 64, 2), EnginePlan("process", 32, 2), EnginePlan("serial", 32, 1), SERIAL]
    assert fastest(plans, [100, 99, 97, 40]) == plans[1]
    assert fastest(plans, [100, 99, 99, 40]) == plans[2]
    assert fastest(plans, [100, 90, 90, 99]) == SERIAL


@pytest.mark.parametrize("plan", [SERIAL, PROCESS])
def test_auto_takes_the_faster_one(contests, given_rates, plan, monkeypatch):
    """Whatever follows from the cost of a step; and the next engine does without measuring."""
    given_rates({SERIAL: 100.0, PROCESS: 100.0} | {plan: 150.0})
    monkeypatch.setattr(contest, "is_busy", lambda seconds: False)
    for _ in range(2):
        with closing(rookery.make_vec("CartPole-v1", 8, workers=2)) as envs:
            assert envs.backend == plan.backend
        given_rates({})


def test_auto_chooses_the_number_of_envs(contests, given_rates):
    """Of the numbers that are tried, the fewest within 2 % of the fastest."""
    cost, cores = measured(1e-5), usable_cores()
    expected = contest.choose(cost)
    most = EnginePlan("process", 32 * cores, cores)
    rates = dict.fromkeys(contest._shortlist(cost, expected, None, None, 1), 100.0)
    given_rates(rates | {most: 200.0})
    choice = measured_choice(resolve("CartPole-v1"), expected, None, None)
    assert (choice.backend, choice.num_envs, choice.workers) == most


@pytest.mark.parametrize(("step", "at_least", "envs"), [(1e-5, 1, 32), (1e-4, 1, 8), (1e-4, 9, 32), (1e-4, 40, 40)])
def test_the_serial_loop_has_as_many_envs_as_help(step, at_least, envs):
    """A round costs as much as a few microseconds of steps."""
    cost = measured(step)
    plans = contest._shortlist(cost, contest.choose(cost), None, None, at_least)
    assert [plan.num_envs for plan in plans if plan.backend == "serial"] == [envs]


def test_what_a_busy_machine_chooses_is_soon_forgotten(contests, given_rates, monkeypatch, tmp_path):
    source = resolve("CartPole-v1")
    given_rates({SERIAL: 100.0, PROCESS: 200.0})
    for busy, seconds in ((True, BUSY_SECONDS), (False, 86_400)):
        monkeypatch.setattr(contest, "is_busy", lambda _, busy=busy: busy)
        measured_choice(source, contest.choose(measured(1e-5), 8, 2), 8, 2)
        assert recall_fastest(source, 8, 2, 1) == PROCESS
        assert recall_fastest(source, 4, 2, 1) is None
        ((until, *_),) = json.loads((tmp_path / "fastest.json").read_text()).values()
        assert (until - time.time() > seconds) is not busy


@pytest.mark.parametrize("entry", [None, 3, [], ["x", "serial", 8, 1], [0, "serial", 8, 1], [1e400, "serial", 8, 1]])
def test_what_is_no_choice_is_ignored(tmp_path, entry):
    """In the file of what was measured."""
    source = resolve("CartPole-v1")
    contest.remember_fastest(source, SERIAL, False, 8)
    (key,) = json.loads((tmp_path / "fastest.json").read_text())
    (tmp_path / "fastest.json").write_text(json.dumps({key: entry}))
    assert recall_fastest(source, 8) is None


def test_what_cannot_be_measured_is_as_expected(contests, monkeypatch):
    """Envs that cannot run twice at a time, and those that are slow to step or to make."""
    source, expected = resolve("CartPole-v1"), contest.choose(measured(1e-5), 8)

    def fail(*_):
        raise OSError("address already in use")

    monkeypatch.setattr(contest, "contest", fail)
    assert measured_choice(source, expected, 8, None) is expected
    slow = contest.choose(measured(0.1), 8)
    assert measured_choice(source, slow, 8, None) is slow


def test_engines_in_turns_are_real(contests):
    """Each kind steps, says its memory, and is gone afterwards; envs that fail raise what they raised."""
    plans = [EnginePlan("serial", 2, 1), EnginePlan("process", 4, 2), EnginePlan("kernel", 16, 1)]
    found = contest.contest(resolve("rookery/CartPole-v1"), measured(1e-5), plans, 0.05, 2)
    assert all(rate > 0 for rate, _ in found)
    assert found[1][1] > 2**20
    with pytest.raises(ZeroDivisionError):
        contest.contest(resolve(lambda: 1 / 0), measured(1e-5), [SERIAL], 0.05)


def test_only_so_many_run_at_a_time(monkeypatch):
    """What would fill the memory, or start thousands of processes, takes turns in groups."""
    plans = [EnginePlan("process", 8, 8)] * 5
    monkeypatch.setattr(contest, "usable_cores", lambda: 2)
    assert [len(group) for group in contest._groups(measured(1e-5), plans)] == [2, 2, 1]
    large = measured(1e-5, memory=2**40)
    assert [len(group) for group in contest._groups(large, plans)] == [1] * 5
