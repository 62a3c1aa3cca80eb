"""A large study for benchmarks, written by plain SQL: Optuna takes minutes for so many trials."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, distribution_to_json

CHOICES = ["tanh", "relu", "elu"]
SPACE: dict[str, BaseDistribution] = {
    "ppo.learning_rate": FloatDistribution(1e-5, 1e-2, log=True),
    "ppo.gamma": FloatDistribution(0.9, 0.9999),
    "ppo.gae_lambda": FloatDistribution(0.8, 1.0),
    "ppo.clip": FloatDistribution(0.1, 0.4),
    "ppo.entropy_coef": FloatDistribution(1e-8, 0.1, log=True),
    "ppo.value_coef": FloatDistribution(0.1, 1.0),
    "ppo.max_grad_norm": FloatDistribution(0.1, 5.0, log=True),
    "ppo.activation": CategoricalDistribution(CHOICES),
}
BEGAN = datetime(2026, 1, 1, 12)
CONFIG = {"world": "CartPole-v1", "learner": "ppo", "steps": 100_000}
REPORTS = 3  # intermediate values of a trial
PRUNED = 0.2  # share of the trials


def write_study(folder: Path, trials: int, seed: int = 0) -> Path:
    """A study of so many trials in a folder as `rookery search` makes it; returns the database."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.db"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name=folder.name, storage=f"sqlite:///{path}", direction="maximize")
    study.set_user_attr("rookery:config", {**CONFIG, "search": {"n_trials": trials}})
    (folder / "study.json").write_text(json.dumps({"name": folder.name, "storage": "study.db", "format": 1}))
    columns = _params(trials, np.random.default_rng(seed))
    value = _values(columns, np.random.default_rng(seed + 1))
    with sqlite3.connect(path) as database:
        _fill(database, columns, value, np.random.default_rng(seed + 2).random(trials) < PRUNED)
    database.close()
    return path


def _params(trials: int, drawn: np.random.Generator) -> dict[str, np.ndarray]:
    """As Optuna stores them: choices by their places."""
    found = {}
    for name, each in SPACE.items():
        if isinstance(each, CategoricalDistribution):
            found[name] = drawn.integers(0, len(each.choices), trials).astype(float)
        elif isinstance(each, FloatDistribution) and each.log:
            found[name] = np.exp(drawn.uniform(np.log(each.low), np.log(each.high), trials))
        elif isinstance(each, FloatDistribution):
            found[name] = drawn.uniform(each.low, each.high, trials)
    return found


def _values(columns: dict[str, np.ndarray], drawn: np.random.Generator) -> np.ndarray:
    """Returns that depend on the learning rate most, then on gamma and the activation."""
    rate = -np.square(np.log10(columns["ppo.learning_rate"]) + 3.2)
    trials = len(rate)
    trend = 60 * np.arange(trials) / max(trials, 1)
    return (
        400
        + 80 * rate
        + 300 * (columns["ppo.gamma"] - 0.9)
        - 15 * columns["ppo.activation"]
        + trend
        + 25 * (drawn.standard_normal(trials))
    )


def _fill(database: sqlite3.Connection, columns: dict[str, np.ndarray], value: np.ndarray, pruned: np.ndarray) -> None:
    trials = len(value)
    ids = range(1, trials + 1)
    starts = [str(BEGAN + timedelta(seconds=2 * k)) for k in range(trials)]
    ends = [str(BEGAN + timedelta(seconds=2 * k + 3)) for k in range(trials)]
    states = np.where(pruned, "PRUNED", "COMPLETE").tolist()
    database.executemany(
        "INSERT INTO trials VALUES (?, ?, 1, ?, ?, ?)", zip(ids, range(trials), states, starts, ends, strict=True)
    )
    finished = [(each, float(value[each - 1])) for each in ids if not pruned[each - 1]]
    database.executemany("INSERT INTO trial_values VALUES (NULL, ?, 0, ?, 'FINITE')", finished)
    texts = {name: distribution_to_json(each) for name, each in SPACE.items()}
    lists = {name: column.tolist() for name, column in columns.items()}
    database.executemany(
        "INSERT INTO trial_params VALUES (NULL, ?, ?, ?, ?)",
        ((each, name, lists[name][each - 1], texts[name]) for each in ids for name in SPACE),
    )
    steps = [(k + 1) * 10_000 for k in range(REPORTS)]
    database.executemany(
        "INSERT INTO trial_intermediate_values VALUES (NULL, ?, ?, ?, 'FINITE')",
        (
            (each, step, float(value[each - 1]) * (k + 1) / REPORTS)
            for each in ids
            for k, step in enumerate(steps[: 1 if pruned[each - 1] else REPORTS])
        ),
    )
    parts = ({"seed-0": {"value": float(value[each - 1]), "run": f"runs/trial-{each - 1:05d}-seed-0"}} for each in ids)
    database.executemany(
        "INSERT INTO trial_user_attributes VALUES (NULL, ?, 'rookery:parts', ?)",
        ((each, json.dumps(part)) for each, part in zip(ids, parts, strict=True)),
    )
