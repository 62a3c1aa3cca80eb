"""Checkpoints by the clock: they change no number, and are made only where they help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.training.run import timing
from rookery.training.storage.checkpoint import Checkpoints
from training.runs import differences, last_state, small


def trained(folder: Path, learner: str, **checkpoints: Any) -> rookery.Result:
    """A run that is not saved by counts before its end."""
    config = small(learner, folder, steps=2048, checkpoints={"every": None, **checkpoints})
    return rookery.train({**config, "evaluation": {"episodes": 1, "every": 1024}})


def kept(run: rookery.Result) -> list[int]:
    return Checkpoints(run.path / "checkpoints").steps()


def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SPARE_SECONDS", 0.0)
    monkeypatch.setattr(timing, "SPARE_SHARE", float("inf"))


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_they_change_no_number(learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = trained(tmp_path / "plain", learner)
    always_due(monkeypatch)
    spare = trained(tmp_path / "spare", learner)
    assert not differences(last_state(plain.path), last_state(spare.path))
    assert set(kept(plain)) <= set(kept(spare))
    if learner == "ppo":
        assert kept(spare) == [*range(64, 2049, 64)] and len(kept(plain)) < 20
    with rookery.rewind(spare, at=2000) as live:
        assert live.exact


@pytest.mark.parametrize("options", [{"every": 1024}, {"budget": 0.0}, {"every_episodes": 1000}])
def test_none_where_somebody_said_how_many(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    always_due(monkeypatch)
    told = {"every": None, **options}
    before = trained(tmp_path, "ppo", **told)
    assert len(kept(before)) <= 4


@pytest.mark.slow
def test_the_budget_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier ones thin out, and the latest stay."""
    always_due(monkeypatch)
    whole = trained(tmp_path / "whole", "ppo")
    files = (tmp_path / "whole").rglob("step-000000002048/*")
    size = sum(file.stat().st_size for file in files) / 1e6
    few = trained(tmp_path / "few", "ppo", budget=4.5 * size)
    assert len(kept(few)) < len(kept(whole)) and kept(few)[-3:] == [1920, 1984, 2048]
    disk = sum(file.stat().st_size for file in (few.path / "checkpoints").rglob("*") if file.is_file()) / 1e6
    assert disk <= 7.5 * size  # with the latest, and the best
