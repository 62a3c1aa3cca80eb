"""Pruning: what stops a run, and what that has saved."""

from __future__ import annotations

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from rookery.config import build_config
from rookery.config.sections import SearchOptions
from rookery.studies.space.samplers import make_pruner
from rookery.studies.storage.trial_view import PARTS
from rookery.studies.trials.pruning import PRUNED, pruning_callback, pruning_report
from rookery.training.run.callbacks import callback_name


class StandInClaim:
    """A claim whose trial is pruned once it reports less than 10."""

    def __init__(self):
        self.reported = {}

    def report(self, value, step):
        self.reported[step] = value

    def should_prune(self):
        return min(self.reported.values()) < 10


class StandInRun:
    def __init__(self, step):
        self.step, self.stopped = step, None

    def stop(self, reason):
        self.stopped = reason


def test_a_run_is_stopped_when_the_pruner_says_so():
    claim, config = StandInClaim(), build_config("CartPole-v1", steps=100)
    callback = pruning_callback(claim, config)
    good, bad, last = StandInRun(20), StandInRun(40), StandInRun(100)
    callback.on_evaluation(good, {"eval/return": 12.0})
    callback.on_evaluation(bad, {"eval/return": 3.0})
    callback.on_evaluation(last, {"eval/return": 3.0})
    assert (good.stopped, bad.stopped, last.stopped) == (None, PRUNED, None), "a run at its end is not stopped"
    assert claim.reported == {20: 12.0, 40: 3.0, 100: 3.0}
    assert callback_name(callback) is None, "a run does not record it"


@pytest.mark.parametrize("name", ["none", "median", "asha", "hyperband", "wilcoxon"])
def test_every_pruner_can_be_made(name):
    assert isinstance(make_pruner(SearchOptions(pruner=name), 5000), optuna.pruners.BasePruner)


def trial(state, values, steps, value=None):
    parts = {PARTS: {"seed-0": {"steps": steps}}}
    return create_trial(state=state, value=value, intermediate_values=values, user_attrs=parts)


def test_what_was_saved_and_may_have_been_lost():
    best = trial(TrialState.COMPLETE, {10: 5.0, 20: 50.0}, 100, value=50.0)
    behind = trial(TrialState.PRUNED, {10: 1.0}, 10)
    ahead = trial(TrialState.PRUNED, {10: 7.0}, 20)
    found = pruning_report([best, behind, ahead], 100)
    assert found == {"pruned": 2, "steps_saved": 170, "share_saved": pytest.approx(170 / 300), "ahead_of_best": 1}
    assert pruning_report([best], 100) is None
