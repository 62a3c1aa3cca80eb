"""Numbers of the infos of episodes' last steps: means of the latest episodes are metrics of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.training.evaluation.win_record import MOST_NUMBERS
from rookery.training.run import collector
from rookery.training.run.recent_episodes import InfoMeans
from training.run.purse import Purse
from training.runs import QUIET, differences, last_state, small


def events_of(run: Path, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["kind"] == kind]


def episodes_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]


class Till(gym.Env):
    """Episodes of three steps, with infos of many kinds at their ends and others before."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        infos = {"sold": self.t, "equity": 2.5 * self.t, "open": self.t < 3, "name": "till", "is_success": True}
        more = {"sizes": np.ones(2), "nested": {"a": 1}, "worst": -np.inf, "maybe": None if self.t < 3 else 4}
        return np.zeros(2, np.float32), 1.0, self.t == 3, False, infos | more


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_numbers_at_the_ends_of_episodes_are_metrics(backend: str, tmp_path: Path) -> None:
    """Of training and of evaluations. Texts, arrays, nested infos and what is not finite are left out."""
    options = small("ppo", tmp_path, backend=backend, workers=1, steps=128, monitor={**QUIET, "tensorboard": True})
    result = rookery.train({**options, "world": f"{__file__}:Till"})
    wanted = {"info/sold": 3.0, "info/equity": 7.5, "info/open": 0.0, "info/maybe": 4.0}
    progress = [event for event in events_of(result.path, "progress") if "episode/return" in event][-1]
    assert {name: value for name, value in progress.items() if name.startswith("info/")} == wanted
    assert progress["episode/success_rate"] == 1.0
    evaluation = events_of(result.path, "evaluation")[-1]
    assert {name: x for name, x in evaluation.items() if "info/" in name} == {
        f"eval/{name}": value for name, value in wanted.items()
    }
    (scalars,) = (result.path / "tensorboard").glob("events*")
    assert b"info/equity" in scalars.read_bytes() and b"eval/info/equity" in scalars.read_bytes()


def test_only_the_first_names_are_kept() -> None:
    """An env that invents names does not fill the metrics; a hundred episodes of each are the window."""
    means = InfoMeans()
    for k in range(60):
        column = np.arange(8.0) + 8 * k
        infos = {f"n{k}": column, f"_n{k}": np.ones(8, bool), "x": column, "_x": column % 2 == 0}
        means.add({"final_info": infos}, {})
    assert len(means.metrics()) == MOST_NUMBERS
    assert means.metrics()["info/x"] == np.mean([x for x in range(480) if x % 2 == 0][-100:])
    again = InfoMeans()
    again.load(json.loads(json.dumps(means.state())))
    assert again.metrics() == means.metrics()


def test_those_that_are_outcomes_already_are_not_told_twice() -> None:
    means = InfoMeans()
    infos = {"winner": np.array([1]), "_winner": np.array([True]), "goals": np.array([2]), "_goals": np.array([True])}
    means.add({"final_info": infos}, {"outcomes": ["goals"]})
    assert means.metrics() == {}


@pytest.mark.slow
def test_columns_of_a_kernel_world_in_a_compiled_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts of a world with infos are compiled too; weights, episodes and means are those made step by step. A
    resumed run has the means of the whole run."""
    options: dict[str, Any] = {"world": f"{Path(__file__).parent / 'purse.py'}:Purse", "steps": 1600}
    rolled = rookery.train(small("ppo", tmp_path / "rolled", **options))
    part = rookery.train(small("ppo", tmp_path / "part", **{**options, "steps": 768}))
    resumed = rookery.resume(part.path, steps=1600)
    monkeypatch.setattr(collector, "roller_for", lambda *_: None)
    stepped = rookery.train(small("ppo", tmp_path / "stepped", **options))
    episodes = episodes_of(rolled.path)
    last = episodes[-100:]
    for result in (rolled, resumed, stepped):
        assert not differences(last_state(rolled.path), last_state(result.path))
        told = [event for event in events_of(result.path, "progress") if "episode/return" in event][-1]
        assert told["info/purse"] == pytest.approx(np.mean([episode["purse"] for episode in last]))
        assert told["info/bets"] == pytest.approx(np.mean([episode["bets"] for episode in last]))
        assert not {"info/ratio", "info/history"} & told.keys()
    assert {episode["length"] == Purse.time_limit for episode in episodes} == {True, False}
