"""Runs on a Game Boy world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rookery
from rookery.errors import RunError
from rookery.worlds.gameboy.game_profile import SHIPPED

SHORT = {"ppo": {"rollout_length": 8, "hidden": [8]}, "monitor": {"panel": False, "plot": False}}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on a profile that was named from the folder it lies in: `here/mine.toml`."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine.toml").write_text((SHIPPED / "meadow.toml").read_text())
    monkeypatch.chdir(here)
    options = {"profile": "mine.toml"}
    runs = str(tmp_path / "runs")
    return rookery.train(
        "gameboy", world_options=options, num_envs=2, steps=16, backend="serial", runs_dir=runs, **SHORT
    ).path


@pytest.mark.slow
def test_a_run_finds_its_files_again_from_anywhere(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile is remembered with its whole path."""
    monkeypatch.chdir("/")
    assert rookery.resume(str(run), steps=32).total_steps == 32


@pytest.mark.slow
def test_a_run_whose_world_has_changed_is_not_resumed(run: Path) -> None:
    """With a button less the nets no longer fit, and one sentence says so."""
    profile = Path("mine.toml")
    profile.write_text(profile.read_text().replace('"nothing", ', ""))
    with pytest.raises(RunError, match=r"its action space was Discrete\(6\), and is Discrete\(5\) now"):
        rookery.resume(str(run), steps=32)


@pytest.mark.slow
def test_a_game_of_ones_own_is_seen_and_rewarded_to_scale(run: Path) -> None:
    """Unless the user says otherwise: rewards may be of any size, and a screen is mostly scenery."""
    recorded = json.loads((run / "config.json").read_text())
    assert recorded["ppo"]["normalise_observations"] and recorded["ppo"]["normalise_rewards"]
    assert recorded["ppo"]["hidden"] == SHORT["ppo"]["hidden"]


def test_workers_do_not_say_what_the_parent_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A profile without rewards is told of once, and not by every worker."""
    text = (SHIPPED / "meadow.toml").read_text()
    profile = tmp_path / "mine.toml"
    profile.write_text(text[: text.index("[[reward]]")] + text[text.index("[episode]") :])
    rookery.make_vec("rookery/GameBoy-v0", 2, backend="process", workers=2, env_kwargs={"profile": profile}).close()
    assert "rewards nothing" not in capfd.readouterr().err
