"""W&B and MLflow, played by stand-ins: what they are told, and what they are not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from monitor import telling
from rookery.errors import MissingExtra, OptionError
from rookery.monitor.events import Event
from rookery.monitor.trackers import make_tracker


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    module = MagicMock()
    module.init.return_value.id = "abc"
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    module = MagicMock()
    module.start_run.return_value = SimpleNamespace(info=SimpleNamespace(run_id="def"))
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def start(folder: Path, **changes: Any) -> Event:
    return telling.start(path=str(folder), api_key="sesame", **changes)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails before the run starts, with the line to type."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=f"pip install {name}"):
        make_tracker(name)


def test_an_unknown_tracker_lists_those_there_are() -> None:
    with pytest.raises(OptionError, match="wandb, mlflow"):
        make_tracker("comet")


def test_wandb_gets_facts_scalars_and_the_end(wandb: MagicMock, tmp_path: Path) -> None:
    """The run carries our name; values go under our names at our steps."""
    tracker = make_tracker("wandb", project="birds", mode="offline")
    tracker.write(start(tmp_path))
    tracker.write(telling.evaluation(50, **{"eval/length": float("nan")}))
    tracker.write(telling.end())
    tracker.close()
    options = wandb.init.call_args.kwargs
    assert (options["project"], options["name"], options["mode"]) == ("birds", "CartPole-v1_ppo", "offline")
    assert "id" not in options
    run = wandb.init.return_value
    expected = {"eval/return": 456.75, "eval/return_std": 26.0, "eval/return_low": 444.25, "eval/return_high": 469.25}
    expected |= {"eval/episodes": 20.0, "eval/seconds": 1.5}
    run.log.assert_called_once_with(expected, step=50)
    run.finish.assert_called_once_with(exit_code=0)


def test_secrets_stay_here(wandb: MagicMock, mlflow: MagicMock, tmp_path: Path) -> None:
    """Only facts on the list are sent, and neither code, git state nor console output."""
    for name in ("wandb", "mlflow"):
        make_tracker(name).write(start(tmp_path))
    sent = wandb.init.call_args.kwargs
    assert sent["config"]["world"] == "CartPole-v1" and sent["save_code"] is False
    wandb.Settings.assert_called_once_with(disable_git=True, console="off")
    assert "sesame" not in str(wandb.mock_calls) + str(mlflow.mock_calls)


def test_a_resumed_run_goes_on_where_it_was(wandb: MagicMock, mlflow: MagicMock, tmp_path: Path) -> None:
    """The service's id is kept in the run's folder; a new run in that folder gets a new one."""
    for name in ("wandb", "mlflow"):
        make_tracker(name).write(start(tmp_path))
        make_tracker(name).write(start(tmp_path, resumed_from=500))
    assert wandb.init.call_args.kwargs["id"] == "abc" and wandb.init.call_args.kwargs["resume"] == "allow"
    assert mlflow.start_run.call_args.kwargs == {"run_id": "def"}
    assert mlflow.log_params.call_count == 1
    make_tracker("wandb").write(start(tmp_path))
    assert "id" not in wandb.init.call_args.kwargs


@pytest.mark.parametrize(
    ("reason", "status"),
    [("finished", "FINISHED"), ("interrupted", "KILLED"), ("failed: NaN", "FAILED"), ("goal reached", "FINISHED")],
)
def test_mlflow_gets_metrics_and_how_it_ended(mlflow: MagicMock, tmp_path: Path, reason: str, status: str) -> None:
    tracker = make_tracker("mlflow")
    tracker.write(start(tmp_path))
    tracker.write(telling.progress(10, 1.0))
    tracker.write(telling.end(reason=reason))
    tracker.close()
    assert mlflow.log_metrics.call_args.kwargs == {"step": 10}
    mlflow.end_run.assert_called_once_with(status=status)


def test_a_run_closed_without_an_end_has_failed(wandb: MagicMock, tmp_path: Path) -> None:
    tracker = make_tracker("wandb")
    tracker.write(start(tmp_path))
    tracker.close()
    wandb.init.return_value.finish.assert_called_once_with(exit_code=1)
