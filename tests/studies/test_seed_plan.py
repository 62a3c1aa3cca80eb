"""Which runs a trial has, and what they are worth."""

from __future__ import annotations

import json
import math

import pytest

from rookery.config import build_config
from rookery.config.sections import SearchOptions
from rookery.studies.trials.plans import SeedPlan, metric_of, plan_for, trial_name
from rookery.training.storage.run_dir import RunDir


def config(**keys):
    return build_config("CartPole-v1", name=trial_name(7), steps=5000, **keys)


def test_tuning_and_held_out_seeds_are_disjoint():
    plan = SeedPlan(SearchOptions(seeds=3, first_seeds=3, verify_seeds=5))
    tuning = plan.first_parts(config(seed=4))
    held_out = plan.verify_parts(config(seed=4))
    assert [part.config.seed for part in tuning] == [4, 5, 6]
    assert [part.config.seed for part in held_out] == [1004, 1005, 1006, 1007, 1008]
    assert [part.run_name for part in tuning] == [f"trial-00007-seed-{seed}" for seed in (4, 5, 6)]
    assert held_out[0].run_name == held_out[0].config.name == "trial-00007-verify-1004"
    assert {part.config.evaluation.seed for part in tuning}.isdisjoint(p.config.evaluation.seed for p in held_out)


def test_all_trials_play_the_same_episodes():
    plan = SeedPlan(SearchOptions(first_seeds=3))
    assert len({part.config.evaluation.seed for part in plan.first_parts(config())}) == 1


def test_what_the_user_says_about_evaluations_stays():
    plan = SeedPlan(SearchOptions())
    given = {"every": 1000, "episodes": 5, "seed": 3}
    evaluation = plan.first_parts(config(evaluation=given))[0].config.evaluation
    assert {key: getattr(evaluation, key) for key in given} == given


@pytest.mark.parametrize(
    ("options", "every"), [({}, 5000), ({"pruner": "median"}, None), ({"metric": "best_evaluation"}, None)]
)
def test_runs_are_evaluated_during_training_only_where_that_is_needed(options, every):
    part = SeedPlan(SearchOptions(**options)).first_parts(config())[0]
    assert part.config.evaluation.every == every


def test_more_seeds_come_one_by_one():
    plan = SeedPlan(SearchOptions(seeds=3, first_seeds=1))
    assert [part.name for part in plan.first_parts(config())] == ["seed-0"]
    assert [part.name for part in plan.more_parts(config(), {"seed-0": 1.0}, [])] == ["seed-1"]
    complete = {"seed-0": 1.0, "seed-1": 2.0, "seed-2": 3.0}
    assert plan.more_parts(config(), complete, []) == []
    good = [{"seed-0": 100.0, "seed-1": 101.0, "seed-2": 99.0}] * 3
    assert plan.more_parts(config(), {"seed-0": 1.0}, good) == []


def test_the_value_is_the_interquartile_mean():
    plan = SeedPlan(SearchOptions())
    assert plan.total({"a": 1.0, "b": 2.0, "c": 3.0, "d": 100.0}) == 2.5
    assert plan.interval({"a": 1.0}) is None
    low, high = plan.interval({"a": 1.0, "b": 2.0, "c": 3.0})
    assert low < 2.0 < high


@pytest.mark.parametrize(("metric", "value"), [("auto", 4.0), ("evaluation", 4.0), ("best_evaluation", 9.0)])
def test_the_value_of_a_run_is_that_of_its_last_evaluation(metric, value, tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps({"eval/return": 4.0, "eval/best_return": 9.0}))
    plan = SeedPlan(SearchOptions(metric=metric))
    assert plan.value(plan.first_parts(config())[0], RunDir(tmp_path)) == value


def test_a_run_without_an_evaluation_has_no_value(tmp_path):
    plan = SeedPlan(SearchOptions())
    assert math.isnan(plan.value(plan.first_parts(config())[0], RunDir(tmp_path)))


def test_market_worlds_are_cross_validated():
    assert metric_of(build_config("crypto")) == "sharpe_difference"
    assert metric_of(build_config("crypto", search={"metric": "evaluation"})) == "evaluation"
    assert isinstance(plan_for(config()), SeedPlan)
