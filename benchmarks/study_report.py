"""How long the report of a large study takes: `python benchmarks/study_report.py [--trials 10000]`.

A study of so many trials is written to a SQLite file, as a search of rookery would leave it. Then it is read and
reported as `rookery study` does, once from nothing and once more as `--watch` does after a trial has ended.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import FloatDistribution, distribution_to_json

from rookery.studies.report.report import Reporter, report_json
from rookery.studies.storage.study_view import StudyReader

PARAMETERS = 8
UNIT = distribution_to_json(FloatDistribution(0.0, 1.0))
MOMENT = "2026-01-01 12:00:00.000000"


def write_study(path: Path, trials: int) -> None:
    """The study, by plain SQL: Optuna takes minutes for so many trials."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.create_study(study_name="large", storage=f"sqlite:///{path}", direction="maximize")
    with sqlite3.connect(path) as database:
        for number in range(trials):
            add_trial(database, number)
    database.close()


def add_trial(database: sqlite3.Connection, number: int) -> None:
    """One finished trial with the attributes that rookery gives it."""
    drawn = random.Random(number)
    params = {f"ppo.option_{k}": drawn.random() for k in range(PARAMETERS)}
    value = params["ppo.option_0"] + 0.3 * params["ppo.option_1"] + 0.1 * drawn.random()
    parts = {f"seed-{k}": {"value": value, "run": f"runs/{number}-{k}", "seconds": 9.0, "steps": 9} for k in range(3)}
    attributes: dict[str, Any] = {"rookery:settings": params, "rookery:parts": parts, "rookery:seconds": 27.0}
    trial = number + 1
    database.execute("INSERT INTO trials VALUES (?, ?, 1, 'COMPLETE', ?, ?)", (trial, number, MOMENT, MOMENT))
    database.execute("INSERT INTO trial_values VALUES (NULL, ?, 0, ?, 'FINITE')", (trial, value))
    database.executemany(
        "INSERT INTO trial_params VALUES (NULL, ?, ?, ?, ?)",
        [(trial, name, each, UNIT) for name, each in params.items()],
    )
    database.executemany(
        "INSERT INTO trial_user_attributes VALUES (NULL, ?, ?, ?)",
        [(trial, key, json.dumps(each)) for key, each in attributes.items()],
    )


def timed(what: str, call: Callable[[], Any]) -> Any:
    """Call and print the seconds of processor time."""
    began = time.process_time()
    made = call()
    print(f"{what:<44} {time.process_time() - began:7.2f} s")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.db"
        timed(f"write {trials:,} trials", lambda: write_study(path, trials))
        reader, reporter = StudyReader.find(path), Reporter()
        study = timed("read", reader.read)
        report = timed("report with importances", lambda: reporter.report(study))
        timed("as JSON", lambda: json.dumps(report_json(report), indent=2))
        with sqlite3.connect(path) as database:
            add_trial(database, trials)
        database.close()
        timed("read again, one trial more", reader.read)
        timed("report again, no trial more", lambda: reporter.report(study))
        theirs = optuna.load_study(study_name="large", storage=f"sqlite:///{path}")
        timed("for comparison: Optuna reads the trials", lambda: theirs.get_trials(deepcopy=False))


if __name__ == "__main__":
    main()
