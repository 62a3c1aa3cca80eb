"""The same study has the same trials in SQLite and in PostgreSQL, bit for bit, and after interruptions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rookery.config.schema import RunConfig
from rookery.studies.space.samplers import make_sampler
from rookery.studies.space.space import SearchSpace
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore

SPACE = {
    "ppo.learning_rate": {"log": [1e-6, 1e-3]},
    "ppo.gamma": {"uniform": [0.9, 0.9999]},
    "ppo.epochs": {"int": [1, 20]},
    "ppo.rollout_length": {"choice": [16, 32, 64]},
}


def value_of(settings: dict[str, Any]) -> float:
    """No round number: every digit must survive."""
    return math.sin(settings["ppo.learning_rate"] * 1e5) + settings["ppo.gamma"] / 3 - settings["ppo.epochs"] / 7


def trials(base: Path, sampler: str, storage: str | None, n_trials: int = 14, interrupted: bool = False) -> list[Any]:
    """What a study has recorded."""
    config = RunConfig.model_validate(
        {"world": "CartPole-v1", "learner": "ppo", "search": {"space": SPACE, "sampler": sampler, "seed": 5}}
    )
    for until in range(1, n_trials + 1) if interrupted else [n_trials]:
        space = SearchSpace.of(config)
        folder = StudyFolder.create(base, "same", storage)
        with StudyStore.open(folder, storage, config, make_sampler(config.search, space), patience=10.0) as store:
            store.enqueue(space.first_trials(config))
            while (claim := store.claim("test", until)) is not None:
                if interrupted and claim.settings is None and claim.number % 3 == 0:
                    claim.trial.suggest_float("ppo.gamma", 0.9, 0.9999)
                    claim.release()
                    claim = store.claim("test", until)
                    assert claim is not None
                settings = claim.suggest(space.suggest)
                claim.set_part("seed-0", {"value": value_of(settings), "seconds": 1 / 3})
                claim.report(value_of(settings) / 3, 1)
                claim.finish(value_of(settings))
            found = [
                (trial.number, trial.state, trial.params, trial.values, trial.user_attrs, trial.intermediate_values)
                for trial in store.study.get_trials()
            ]
    return found


@pytest.mark.slow
def test_sqlite_and_postgres_hold_the_same_trials(postgres_url: str, tmp_path: Path) -> None:
    """Every number is equal, not only close."""
    here = trials(tmp_path / "a", "random", None, 4)
    assert len(here) == 4 and here == trials(tmp_path / "b", "random", postgres_url, 4)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes"])
def test_every_sampler_draws_the_same_from_both(sampler: str, postgres_url: str, tmp_path: Path) -> None:
    """After its first draws, which are random, it depends on all that was recorded."""
    here = trials(tmp_path / "a", sampler, None)
    assert len(here) == 14 and here == trials(tmp_path / "b", sampler, postgres_url)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "random", "cmaes"])
def test_an_interrupted_study_has_the_trials_of_an_uninterrupted_one(sampler: str, tmp_path: Path) -> None:
    """Opened again for every trial, and with trials that were given back while their settings were chosen."""
    assert trials(tmp_path / "a", sampler, None) == trials(tmp_path / "b", sampler, None, interrupted=True)
