"""Runs on a Game Boy world."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from rookery.worlds.gameboy.profile import SHIPPED

SHORT = {"ppo": {"rollout_length": 8, "hidden": [8]}, "monitor": {"panel": False, "plot": False}}


def test_a_run_finds_its_files_again_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that was named from the folder it lies in is remembered with its whole path."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir(), elsewhere.mkdir()
    (here / "mine.toml").write_text((SHIPPED / "meadow.toml").read_text())
    monkeypatch.chdir(here)
    options = {"profile": "mine.toml"}
    result = rookery.train(
        "gameboy",
        world_options=options,
        num_envs=2,
        steps=16,
        backend="serial",
        runs_dir=str(tmp_path / "runs"),
        **SHORT,
    )
    monkeypatch.chdir(elsewhere)
    assert rookery.resume(str(result.path), steps=32).total_steps == 32
