"""The figures of a study, and its report as text and as JSON."""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import distribution_to_json
from rich.console import Console

from rookery.studies.report.importances import importances
from rookery.studies.report.report import Reporter, plain, report_json
from rookery.studies.report.report_text import report_text, status_line, value_text
from rookery.studies.report.study_figures import busy_seconds, pareto_front, search_options, study_figures, top_trials
from rookery.studies.report.study_plots import draw_plots
from rookery.studies.storage.study_view import StudyView, TrialView, VerifiedTrial
from rookery.studies.storage.trial_view import Distribution
from studies.example_studies import SPACE, settings

NOON = datetime(2026, 1, 1, 12)
KEYS = {"finished", "running", "failed", "pruned", "best_value", "best_params", "trials"}


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def trial(number: int, value: float | None = None, state: Any = "finished", **given: Any) -> TrialView:
    values = () if value is None else (value,)
    options = {"value": value, "values": values, "settings": settings(number), "params": settings(number)} | given
    return TrialView(number, state, **options)


def distributions(trials: Sequence[TrialView]) -> dict[str, Distribution]:
    """Those of the example, and of other parameters what was chosen."""
    found = {name: Distribution.read(distribution_to_json(each)) for name, each in SPACE.items()}
    for name in {name for each in trials for name in each.params} - set(SPACE):
        values = list(dict.fromkeys(each.params[name] for each in trials if name in each.params))
        found[name] = Distribution("", choices=None if isinstance(values[0], int | float) else values)
    return found


def view(*trials: TrialView, maximise: bool = True, **given: Any) -> StudyView:
    options = {
        "directions": (maximise,),
        "folder": None,
        "storage": "a.db",
        "distributions": distributions(trials),
    } | given
    return StudyView("demo", maximise=maximise, trials=trials, **options)


def text_of(study: StudyView) -> str:
    out = Console(file=io.StringIO(), width=140, highlight=False, markup=False)
    out.print(report_text(Reporter().report(study, at(60)), 140))
    return out.file.getvalue()  # type: ignore[attr-defined]


def test_time_counts_while_any_trial_runs() -> None:
    """Trials side by side count once, and pauses do not count."""
    trials = [
        trial(0, 1.0, started=at(0), ended=at(10)),
        trial(1, 1.0, started=at(5), ended=at(15)),
        trial(2, 1.0, started=at(100), ended=at(101)),
        trial(3, None, "running", started=at(102)),
    ]
    assert busy_seconds(trials, at(104)) == 60 * (15 + 1 + 2)


def test_rate_and_time_left() -> None:
    ended = [trial(n, 1.0, started=at(10 * n), ended=at(10 * n + 10)) for n in range(3)]
    running = trial(3, None, "running", started=at(30))
    study = view(*ended, running, config={"search": {"n_trials": 6, "timeout": 7200.0}})
    figures = study_figures(study, at(30))
    assert figures.trials_per_hour == pytest.approx(6)
    assert figures.eta_seconds == pytest.approx(1800)
    assert study_figures(view(*ended, config=study.config), at(900)).eta_seconds is None  # nothing is running
    assert "3 trials an hour · ETA 1 h 0 min · 1 h 0 min of 2 h 0 min (50 %) used" in text_of(study)


def test_a_later_search_may_have_more_trials(tmp_path: Path) -> None:
    """It writes the configuration in the study's folder again."""
    (tmp_path / "config.toml").write_text("[search]\nn_trials = 20\n")
    study = view(trial(0, 1.0), config={"search": {"n_trials": 1, "verify": 3}}, folder=tmp_path)
    assert search_options(study.config, study.folder) == {"n_trials": 20, "verify": 3}
    assert not study_figures(study).is_complete
    (tmp_path / "config.toml").write_text("no TOML")
    assert study_figures(study).is_complete


def test_pruning_says_what_it_saved() -> None:
    study = view(trial(0, 1.0, seconds=100.0), trial(1, None, "pruned", seconds=30.0), trial(2, 1.0, seconds=120.0))
    assert study_figures(study).saved_seconds == pytest.approx(80.0)
    assert "pruning saved about 1 min 20 s of training, 24 % of all" in text_of(study)


def test_failures_are_shown_by_how_often() -> None:
    reasons = ["out of memory", "env 3 returned NaN\nmore", "out of memory", None]
    study = view(*(trial(n, None, "failed", reason=reason) for n, reason in enumerate(reasons)))
    shown = text_of(study)
    assert study_figures(study).failures[0] == ("out of memory", 2)
    assert "failed 2 x: out of memory" in shown
    assert "failed 1 x: env 3 returned NaN\n" in shown


@pytest.mark.parametrize("maximise", [True, False])
def test_the_report_shows_tuning_and_held_out_values_side_by_side(maximise: bool) -> None:
    good, better = (10.0, 20.0) if maximise else (20.0, 10.0)
    verified = {0: VerifiedTrial(0, 9.5, (9.0, 10.0), {"1000": 9.5})}
    study = view(trial(0, good, interval=(9.0, 11.0)), trial(1, better), maximise=maximise, verified=verified)
    shown = text_of(study)
    assert "best trial: 0  verified with held-out seeds" in shown
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.startswith("  ")}
    assert rows["tuning"][1:5] == [f"{good:g}", "9", "to", "11"]
    assert rows["held-out"][1:5] == ["9.5", "9", "to", "10"]
    assert f"best tuning {better:g} - trial 1" in " ".join(shown.split())
    assert [each.number for each in top_trials(study, 2)] == [0, 1]


def test_json_has_the_promised_keys() -> None:
    study = view(trial(0, 1.5), trial(1, math.inf), trial(2, None, "failed"), trial(3, None, "running"))
    made = json.loads(json.dumps(report_json(Reporter().report(study)), allow_nan=False))
    assert made.keys() >= KEYS
    assert (made["finished"], made["running"], made["failed"], made["pruned"]) == (2, 1, 1, 0)
    assert (made["best_value"], made["best_params"]) == (1.5, settings(0))
    assert [each["value"] for each in made["trials"]] == [1.5, None, None, None]
    assert [each["state"] for each in made["trials"]] == ["finished", "finished", "failed", "running"]


def test_json_calls_the_verified_trial_best() -> None:
    study = view(
        trial(0, 1.0), trial(1, 3.0), trial(2, 2.0), verified={1: VerifiedTrial(1, 0.5), 2: VerifiedTrial(2, 1.8)}
    )
    made = report_json(Reporter().report(study))
    assert (made["best_trial"], made["best_value"], made["best_params"]) == (2, 1.8, settings(2))
    assert (made["best_tuning_trial"], made["best_tuning_value"]) == (1, 3.0)


@pytest.mark.parametrize(
    "trials", [[], [trial(0, None, "waiting")], [trial(0, math.nan), trial(1, -math.inf)], [trial(0, None, "failed")]]
)
def test_studies_without_a_finished_value_are_shown(trials: list[TrialView]) -> None:
    study = view(*trials)
    made = report_json(Reporter().report(study))
    assert (made["best_value"], made["best_params"]) == (None, None)
    assert "demo" in text_of(study)
    assert status_line(Reporter().report(study)).startswith("demo · ")


def test_importances_find_what_matters() -> None:
    trials = [trial(n, 100 * settings(n)["ppo.gamma"]) for n in range(30)]
    found = importances(view(*trials))
    assert list(found) == sorted(found, key=lambda name: -found[name])
    assert next(iter(found)) == "ppo.gamma"
    assert sum(found.values()) == pytest.approx(1)
    assert importances(view(*trials[:5])) == {}
    assert importances(view(*(trial(n, 1.0) for n in range(30)))) == {}


def test_conditional_parameters_are_judged_by_the_trials_that_have_them() -> None:
    half = [trial(n, 100 * settings(n)["ppo.gamma"]) for n in range(20)]
    other = [trial(n, 90.0 + n / 100, params={"x": n % 3}, settings={"x": n % 3}) for n in range(20, 40)]
    found = importances(view(*half, *other))
    assert next(iter(found)) == "ppo.gamma"
    assert "x" in found


@pytest.mark.slow
def test_importances_agree_with_optuna() -> None:
    """PED-ANOVA is written again, because Optuna's imports scikit-learn; the figures are about the same."""
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    drawn = random.Random(1)
    study = optuna.create_study(direction="maximize")
    trials = []
    for number in range(400):
        params = {
            "ppo.learning_rate": 10 ** drawn.uniform(-5, -2),
            "ppo.gamma": drawn.uniform(0.9, 0.999),
            "ppo.activation": drawn.choice(["tanh", "relu"]),
        }
        value = -((math.log10(params["ppo.learning_rate"]) + 3) ** 2) + 0.3 * (params["ppo.activation"] == "relu")
        trials.append(trial(number, value, params=params))
        study.add_trial(optuna.trial.create_trial(value=value, params=params, distributions=SPACE))
    theirs = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    ours = importances(view(*trials))
    assert list(ours) == list(theirs)
    assert ours == pytest.approx(theirs, abs=0.05)
    assert next(iter(importances(view(*trials), "fanova"))) == "ppo.learning_rate"


def test_the_pareto_front_of_two_objectives() -> None:
    values = [(1.0, 10.0), (3.0, 30.0), (2.0, 40.0), (3.0, 20.0), (0.5, 5.0), (math.nan, 1.0)]
    trials = [trial(n, pair[0], values=pair) for n, pair in enumerate(values)]
    study = view(*trials, directions=(True, False))
    assert [each.number for each in pareto_front(study)] == [3, 0, 4]
    assert report_json(Reporter().report(study))["pareto_front"] == [3, 0, 4]
    shown = text_of(study)
    assert "Pareto front  3 of 3" in shown
    assert "value 2" in shown


def test_the_pareto_front_of_three_objectives() -> None:
    values = [(1.0, 1.0, 1.0), (2.0, 2.0, 0.0), (1.0, 1.0, 0.5)]
    trials = [trial(n, triple[0], values=triple) for n, triple in enumerate(values)]
    assert [each.number for each in pareto_front(view(*trials, directions=(True, True, True)))] == [1, 0]


def test_running_trials_show_their_progress(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "trial-00003-seed-0"
    run.mkdir(parents=True)
    (run / "config.json").write_text('{"steps": 2000}')
    lines = [{"kind": "start", "step": 0, "time": 1.0}, {"kind": "progress", "step": 500, "time": 2.0}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    study = view(trial(3, None, "running"), folder=tmp_path)
    (progress,) = Reporter().report(study).progress
    assert (progress.trial, progress.part, progress.steps, progress.share) == (3, "seed-0", 500, 0.25)
    assert "500 of 2,000  25 %" in text_of(study)
    assert report_json(Reporter().report(study))["progress"][0]["share"] == 0.25


def test_plain_replaces_what_json_has_not() -> None:
    assert plain({"a": (1.0, math.nan), 2: {"b": math.inf}}) == {"a": [1.0, None], "2": {"b": None}}


def test_market_studies_show_folds_and_luck() -> None:
    drawn = random.Random(0)
    trials = []
    for number in range(12):
        values = [number / 10 + drawn.gauss(0, 0.3) for _ in range(6)]
        parts = {f"fold-{k}": {"value": value, "run": f"runs/{number}-{k}"} for k, value in enumerate(values)}
        trials.append(trial(number, sum(values) / 6, parts=parts))
    study = view(*trials, config={"world": "crypto", "search": {"folds": 4}})
    report = Reporter().report(study)
    assert report.market is not None
    assert 0 <= report.market["overfitting_probability"] <= 1
    shown = text_of(study)
    best = study.best
    assert best is not None
    assert "probability of backtest overfitting" in shown
    assert all(f"{k}: {value_text(best.parts[f'fold-{k}']['value'])}" in shown for k in range(6))
    assert report_json(report)["market"]["trials"] == 12
    assert Reporter().report(view(trial(0, 1.0))).market is None


@pytest.mark.slow
def test_plots_take_any_names(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    params = [{"a$b": n / 10, "c_{$": ("$x", "y\x1b")[n % 2]} for n in range(9)]
    trials = [trial(n, n * 1.0, params=each, settings=each) for n, each in enumerate(params)]
    names = {path.name for path in draw_plots(Reporter().report(view(*trials)), tmp_path)}
    assert names == {"history.png", "importances.png", "slices.png", "map.png", "parallel.png"}
