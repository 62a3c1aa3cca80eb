"""Small studies for tests of what reads them."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.storages import RDBStorage
from optuna.trial import TrialState, create_trial
from sqlalchemy import event

SPACE: dict[str, BaseDistribution] = {
    "ppo.learning_rate": FloatDistribution(1e-5, 1e-2, log=True),
    "ppo.gamma": FloatDistribution(0.9, 0.999),
    "ppo.activation": CategoricalDistribution(["tanh", "relu"]),
}
CONFIG = {"world": "CartPole-v1", "learner": "ppo", "steps": 1000}


@cache
def _empty_database() -> bytes:
    """Optuna's tables without a study: making them takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        RDBStorage(f"sqlite:///{folder}/empty.db")
        return Path(folder, "empty.db").read_bytes()


def make_study(path: Path, name: str = "demo", direction: str = "maximize", **options: Any) -> optuna.Study:
    """An empty study in a SQLite file that does not wait for the disk."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not path.exists():
        path.write_bytes(_empty_database())
    storage = RDBStorage(f"sqlite:///{path}")
    storage.engine.dispose()
    event.listen(storage.engine, "connect", lambda made, _: made.execute("PRAGMA synchronous = OFF"))
    chosen = {} if "directions" in options else {"direction": direction}
    return optuna.create_study(study_name=name, storage=storage, **chosen, **options)


def settings(number: int) -> dict[str, Any]:
    """Other settings for each number."""
    return {
        "ppo.learning_rate": 1e-4 * (1 + number % 7),
        "ppo.gamma": 0.9 + 0.01 * (number % 9),
        "ppo.activation": ("tanh", "relu")[number % 2],
    }


def add_trial(study: optuna.Study, value: float | None = None, state: TrialState | None = None, **attrs: Any) -> int:
    """Add a trial with settings of its own, and return its number. Names of attributes are without "rookery:"."""
    number = len(study.get_trials(deepcopy=False))
    params = settings(number)
    trial = create_trial(
        state=state or TrialState.COMPLETE,
        value=value,
        params=params,
        distributions=SPACE,
        user_attrs={f"rookery:{key}": given for key, given in {"settings": params, **attrs}.items()},
    )
    study.add_trial(trial)
    return number


def make_folder(studies_dir: Path, name: str = "demo", direction: str = "maximize") -> optuna.Study:
    """A study in a folder of rookery's, without trials."""
    folder = studies_dir / name
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps({"name": name, "storage": "study.db", "format": 1}))
    study = make_study(folder / "study.db", name, direction)
    study.set_user_attr("rookery:format", 1)
    study.set_user_attr("rookery:config", CONFIG)
    return study
