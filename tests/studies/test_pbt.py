"""Population-based training: copies of the best, recorded, resumable, and the same for the same seed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch

import rookery
from rookery.config import RunConfig, build_config
from rookery.errors import ConfigError
from rookery.studies.population.pbt import LINEAGE, Scheduler, drawn, perturbed, read_lineage, train_pbt
from rookery.studies.search_study import run_search
from rookery.studies.space.dimensions import parse_dimension
from rookery.studies.storage.study_view import open_study
from rookery.studies.storage.trial_view import LINEAGE as ATTRIBUTE
from rookery.training.population.train_population import PopulationLoop, run_population
from rookery.training.run.callbacks import Result
from rookery.training.storage.run_dir import RunDir

EVERY = 128  # two updates of 4 envs x 16 steps
SPACE = {"ppo.learning_rate": {"log": [1e-4, 1e-2]}, "ppo.epochs": {"int": [1, 4]}}


def population(folder: Path, **changes: Any) -> RunConfig:
    space = changes.pop("space", SPACE)
    members = {"size": 4, "exploit_every": EVERY, **changes}
    return build_config(
        "CartPole-v1", learner="ppo", steps=4 * EVERY, num_envs=4, runs_dir=str(folder), verbose=False,
        ppo={"rollout_length": 16, "hidden": [8]}, evaluation={"episodes": 2, "max_episodes": 2},
        monitor={"plot": False, "tensorboard": False, "system": False},
        search={"space": space, "seed": 5, "population": members},
    )  # fmt: skip


def weights(results: list[Result]) -> list[torch.Tensor]:
    return [
        torch.cat([w.detach().flatten() for w in rookery.load(one.path, best=False).policy.parameters()])
        for one in results
    ]


def without_times(folder: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in one.items() if key != "time"} for one in read_lineage(folder)]


def stopped_after(config: RunConfig, rounds: int) -> None:
    """Train until so many rounds are recorded; the last of them is not applied, as if it was killed there."""
    scheduler = Scheduler(config)
    apply = scheduler._apply

    def kill(loop: PopulationLoop, decided: Any) -> None:
        if decided["round"] == rounds:
            loop.stop.signal = signal.SIGKILL
            raise KeyboardInterrupt
        apply(loop, decided)

    scheduler._apply = kill  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run_population(scheduler.plans(), scheduler.attach)


def test_the_worst_become_changed_copies_and_a_killed_population_makes_the_same_ones(tmp_path: Path) -> None:
    whole = train_pbt(population(tmp_path / "whole"))
    rounds = read_lineage(tmp_path / "whole")
    assert [one["step"] for one in rounds] == [EVERY, 2 * EVERY, 3 * EVERY]
    for one in rounds:
        (copy,) = one["copies"]
        assert one["scores"][copy["member"]] == min(one["scores"].values())
        assert one["scores"][copy["from"]] == max(one["scores"].values())
        low, high = SPACE["ppo.learning_rate"]["log"]
        assert low <= copy["settings"]["ppo.learning_rate"][1] <= high
        assert copy["settings"]["ppo.epochs"][1] in (1, 2, 3, 4)
    last = rounds[-1]["copies"][0]
    recorded = RunDir(tmp_path / "whole" / last["member"]).read_config()["ppo"]
    assert recorded["learning_rate"] == last["settings"]["ppo.learning_rate"][1]

    killed = population(tmp_path / "killed")
    stopped_after(killed, 2)
    resumed = train_pbt(killed)
    assert without_times(tmp_path / "killed") == without_times(tmp_path / "whole")
    for one, other in zip(weights(resumed), weights(whole), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_a_member_goes_on_alone_with_its_latest_settings(tmp_path: Path) -> None:
    train_pbt(population(tmp_path))
    copy = read_lineage(tmp_path)[-1]["copies"][0]
    result = rookery.resume(copy["member"], tmp_path, steps=5 * EVERY, verbose=False)
    assert result.total_steps == 5 * EVERY


def test_an_incomplete_line_of_the_lineage_does_not_count(tmp_path: Path) -> None:
    (tmp_path / LINEAGE).write_text('{"round": 1, "step": 128}\n{"round": 2, "st')
    assert read_lineage(tmp_path) == [{"round": 1, "step": 128}]
    assert read_lineage(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 1}, "search.population.size"),
        ({"exploit_every": None}, "search.population.exploit_every"),
        ({"space": {"ppo.hidden": {"choice": [[8], [16]]}}}, "`ppo.hidden` cannot change during a run"),
    ],
)
def test_what_cannot_be_a_population_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train_pbt(population(tmp_path, **changes))


@pytest.mark.slow
def test_a_search_records_the_members_as_trials_and_continues(tmp_path: Path) -> None:
    config = population(tmp_path)
    config = build_config(config.model_dump(mode="json", exclude_unset=True) | {
        "search": {**config.search.model_dump(exclude_unset=True), "studies_dir": str(tmp_path), "study_name": "bred"},
    })  # fmt: skip
    result = run_search(config)
    assert (result.finished, result.failed, result.exit_code) == (4, 0, 0)
    study = open_study("bred", tmp_path)
    rounds = read_lineage(tmp_path / "bred" / "runs")
    for number, trial in enumerate(study.trials):
        recorded = RunDir(tmp_path / "bred" / trial.parts["member"]["run"]).read_config()["ppo"]
        assert trial.settings["ppo.learning_rate"] == recorded["learning_rate"]
        copies = [copy for one in rounds for copy in one["copies"] if copy["member"] == f"member-{number:03d}"]
        stored = (
            optuna.load_study(study_name="bred", storage=f"sqlite:///{tmp_path}/bred/study.db")
            .trials[number]
            .user_attrs[ATTRIBUTE]
        )
        assert [one["from"] for one in stored] == [copy["from"] for copy in copies]
    assert result.best.number == max(study.trials, key=lambda trial: trial.value).number
    again = run_search(config)
    assert (again.finished, again.best.number) == (4, result.best.number)


def test_without_a_space_a_population_varies_what_can_change_during_a_run(tmp_path: Path) -> None:
    keys = Scheduler(population(tmp_path, space={})).space.keys
    assert "ppo.learning_rate" in keys and "ppo.hidden" not in keys and "num_envs" not in keys


@pytest.mark.parametrize("spec", [{"log": [1e-4, 1e-2]}, {"uniform": [0.0, 0.5]}, {"int": [1, 9]}, [1, 2, 4]])
def test_changed_numbers_stay_in_their_range(spec: Any) -> None:
    dimension, random = parse_dimension("ppo.x", spec), np.random.default_rng(0)
    low, high = dimension.edges[0], dimension.edges[-1]
    for _ in range(200):
        value = drawn(dimension, random)
        for factor in (1.2, 1 / 1.2):
            assert low <= perturbed(dimension, value, factor) <= high
    assert perturbed(parse_dimension("ppo.x", {"int": [1, 9]}), 2, 1.2) == 3
