"""Runs that train side by side are the runs that they are alone."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import rookery
from rookery.config import RunConfig, build_config
from rookery.errors import ConfigError, RookeryError
from rookery.training.population.batchable import why_not_batchable
from rookery.training.population.members import MemberPlan
from rookery.training.population.train_population import (
    PopulationLoop,
    resume_population,
    run_population,
    train_population,
)
from rookery.training.run.callbacks import Result
from rookery.training.storage.run_dir import RunDir

STEPS = 256  # four updates of 4 envs x 16 steps
RATES = (3e-3, 1e-3, 3e-4)
NOT_COMPARED = {"time", "seconds", "eval/seconds"}


def trial(folder: Path, name: str, **changes: Any) -> RunConfig:
    numbers = {"rollout_length": 16, "hidden": [16], **changes.pop("ppo", {})}
    given: dict[str, Any] = {
        "learner": "ppo", "steps": STEPS, "num_envs": 4, "runs_dir": str(folder), "name": name, "verbose": False,
        "evaluation": {"every": 128, "episodes": 3}, "checkpoints": {"every": 128},
        "monitor": {"plot": False, "tensorboard": False, "system": False},
    }  # fmt: skip
    return build_config("CartPole-v1", ppo=numbers, **{**given, **changes})


def trials(folder: Path, **changes: Any) -> list[RunConfig]:
    numbers = [{"learning_rate": rate, "gamma": 0.99 - 0.01 * k} for k, rate in enumerate(RATES)]
    return [trial(folder, f"member-{k}", seed=k, ppo=ppo, **changes) for k, ppo in enumerate(numbers)]


def weights(result: Result) -> torch.Tensor:
    return torch.cat(
        [weight.detach().flatten() for weight in rookery.load(result.path, best=False).policy.parameters()]
    )


def lines(result: Result, file: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in (result.path / file).read_text().splitlines())
    return [{key: value for key, value in line.items() if key not in NOT_COMPARED} for line in found]


def assert_same(one: Result, other: Result) -> None:
    assert torch.equal(weights(one), weights(other))
    assert (one.total_steps, one.evaluation, one.episodes) == (other.total_steps, other.evaluation, other.episodes)
    for file in ("episodes.jsonl", "evaluations.jsonl"):
        assert lines(one, file) == lines(other, file)


@pytest.mark.slow
def test_members_have_the_results_and_files_that_they_have_alone(tmp_path: Path) -> None:
    together = train_population(trials(tmp_path / "together"))
    for config, member in zip(trials(tmp_path / "alone"), together, strict=True):
        alone = rookery.train(config)
        assert_same(member, alone)
        files = [{path.name for path in result.path.iterdir()} for result in (member, alone)]
        assert files[0] == files[1]
        own, its = (json.loads((result.path / "config.json").read_text())["ppo"] for result in (member, alone))
        assert own == its


@pytest.mark.slow
def test_a_member_is_resumed_alone_and_a_population_as_a_population(tmp_path: Path) -> None:
    alone = [rookery.train(config) for config in trials(tmp_path / "alone", steps=2 * STEPS)]
    half = train_population(trials(tmp_path / "half"))
    assert_same(rookery.resume(half[0].path, steps=2 * STEPS, verbose=False), alone[0])
    rest = resume_population([result.path for result in half[1:]], steps=2 * STEPS)
    for member, other in zip(rest, alone[1:], strict=True):
        assert_same(member, other)


def test_a_population_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    alone = [rookery.train(config) for config in trials(tmp_path / "alone")]

    def stop_soon(loop: PopulationLoop) -> None:
        def stop(loop: PopulationLoop) -> None:
            loop.stop.signal = signal.SIGTERM

        loop.on_turn = stop

    configs = trials(tmp_path / "stopped")
    stopped = run_population([MemberPlan(config) for config in configs], stop_soon)
    assert [one.reason for one in stopped if isinstance(one, Result)] == ["interrupted"] * len(configs)
    resumed = resume_population([config.name or "" for config in configs], tmp_path / "stopped")
    for member, other in zip(resumed, alone, strict=True):
        assert member.reason == "finished"
        assert_same(member, other)


@pytest.mark.slow
def test_members_may_have_other_lengths_and_goals(tmp_path: Path) -> None:
    configs = trials(tmp_path)
    configs[0] = configs[0].model_copy(update={"steps": STEPS // 2})
    goal = configs[1].evaluation.model_copy(update={"stop_at": 1.0})
    configs[1] = configs[1].model_copy(update={"evaluation": goal})
    results = train_population(configs)
    assert [result.total_steps for result in results] == [STEPS // 2, STEPS // 2, STEPS]
    assert [result.reason for result in results] == ["finished", "goal reached", "finished"]


def test_a_member_that_fails_leaves_the_others(tmp_path: Path) -> None:
    class Failing(rookery.Callback):
        def on_update(self, *args: Any, **kwargs: Any) -> None:
            raise ValueError("no more")

        on_rollout = on_update

    plans = [MemberPlan(config) for config in trials(tmp_path)]
    plans[1] = MemberPlan(plans[1].config, callbacks=[Failing()])
    first, failed, last = run_population(plans)
    assert isinstance(first, Result) and isinstance(last, Result)
    assert isinstance(failed, Exception) and "no more" in str(failed)
    summary = RunDir(tmp_path / "member-1").read_summary()
    assert summary is not None and summary["reason"].startswith("failed")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ppo": {"hidden": [8]}}, "`ppo.hidden` differs"),
        ({"ppo": {"minibatches": 2}}, "`ppo.minibatches` differs"),
        ({"num_envs": 8}, "`num_envs` differs"),
        ({"learner": "dqn"}, "only ppo"),
        ({"ppo": {"recurrent": 8}}, "`ppo.recurrent`"),
        ({"ppo": {"share_weights": True}}, "`ppo.share_weights`"),
        ({"ppo": {"activation": "relu"}}, "`ppo.activation` differs"),
        ({"seed": 9, "ppo": {"clip": 0.3, "epochs": 2, "target_kl": 0.1}}, ""),
    ],
)
def test_the_reason_names_what_is_not_batchable(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    found = why_not_batchable([trial(tmp_path, "a"), trial(tmp_path, "b", **changes)])
    assert reason in found if reason else found == ""


def test_runs_that_are_not_batchable_are_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    configs = [trial(tmp_path, "a"), trial(tmp_path, "b", num_envs=8)]
    with pytest.raises(ConfigError, match=r"`num_envs` differs.*one by one"):
        train_population(configs)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_continuous_actions_with_normalisers_are_equal_too(tmp_path: Path) -> None:
    def member(folder: str, seed: int) -> RunConfig:
        numbers = {"rollout_length": 16, "hidden": [16], "normalise_observations": True, "normalise_rewards": seed == 1}
        return build_config(
            "Pendulum-v1", learner="ppo", steps=STEPS, num_envs=4, seed=seed, ppo=numbers, verbose=False,
            runs_dir=str(tmp_path / folder), evaluation={"episodes": 2}, monitor={"plot": False},
        )  # fmt: skip

    together = train_population([member("together", seed) for seed in range(3)])
    for seed, result in enumerate(together):
        assert_same(result, rookery.train(member("alone", seed)))


def test_an_error_of_one_member_is_raised_after_the_others_have_ended(tmp_path: Path) -> None:
    with pytest.raises(RookeryError):
        train_population([*trials(tmp_path), trial(tmp_path, "x", world_options={"no_such_option": 1})])
