"""What a run records of its episodes: every one once, with its last infos, also over a failure and a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.engine.segment_stepping import EPISODE
from rookery.monitor import episode_file
from rookery.monitor.episode_file import EpisodeFile
from rookery.training.run import recent_episodes
from rookery.training.run.recent_episodes import EpisodeRecords, FinalInfos
from training import moody
from training.runs import QUIET, small, train


def rows_of(run: Path) -> list[dict[str, Any]]:
    """Without what a clock has measured."""
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in ("time", "seconds")} for row in rows]


class Counting(gym.Env):
    """Env k has episodes of k + 2 steps; its last info says so, the others are `{}` or hold other things."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.length = 2 + seed % 5
        self.t = 0
        return np.zeros(2, np.float32), {"never": "recorded"}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        over = self.t >= self.length
        info = {"mine": self.length, "name": f"of {self.length}", "array": np.ones(3), "nested": {"a": 1}}
        if self.length == 3:
            info = {}
        elif self.length == 4:
            info["is_success"] = True
        return np.zeros(2, np.float32), 1.0, over, False, info if over else {}


@pytest.mark.parametrize(("backend", "groups"), [("serial", 1), ("process", 2)])
def test_infos_are_those_of_the_episode(backend: str, groups: int, tmp_path: Path) -> None:
    """On any backend, in groups too; episodes without infos between them do not shift the others'."""
    options = small("ppo", tmp_path, backend=backend, workers=2, groups=groups, steps=256, num_envs=6)
    result = rookery.train({**options, "world": f"{__file__}:Counting"})
    rows = rows_of(result.path)
    assert [row["episode"] for row in rows] == list(range(1, result.episodes + 1))
    assert len({row["length"] for row in rows}) > 1
    for row in rows:
        length = row["length"]
        infos = {} if length == 3 else {"mine": length, "name": f"of {length}"}
        infos |= {"is_success": True} if length == 4 else {}
        own = {"episode": row["episode"], "step": row["step"], "env": row["env"], "return": float(length)}
        assert row == {**own, "length": length, **infos}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("learner", "backend", "groups"), [("ppo", "serial", 1), ("ppo", "process", 2), ("dqn", "process", 1)]
)
def test_no_episode_gets_the_infos_of_another(learner: str, backend: str, groups: int, tmp_path: Path) -> None:
    """Though some end without infos, and others fail, some of them before their first step, which are not recorded."""
    options = small(learner, tmp_path, backend=backend, workers=2, groups=groups, steps=1500, num_envs=6)
    result = rookery.train({**options, "world": f"{moody.__file__}:Moody", "max_restarts": 1000})
    rows = rows_of(result.path)
    assert not moody.wrong_rows(rows)
    assert sum("mine" in row for row in rows) > 20 and sum("restarted" in row for row in rows) > 5


class Failing(rookery.Callback):
    """Ends the run with an error, in the middle."""

    fails = True

    def on_update(self, run: rookery.RunControl, metrics: Any) -> None:
        if run.step > 850 and self.fails:
            raise RuntimeError("in the middle")


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_a_resumed_run_has_each_episode_once(learner: str, tmp_path: Path) -> None:
    """Those after the last checkpoint are made again, and are not doubled."""
    every: dict[str, Any] = {"checkpoints": {"every": 300}}
    whole = train(learner, tmp_path / "whole", **every)
    with pytest.raises(RuntimeError, match="in the middle"):
        rookery.train(small(learner, tmp_path / "broken", **every), callbacks=[Failing()])
    (broken,) = (tmp_path / "broken").iterdir()
    assert 700 < rows_of(broken)[-1]["step"] < 1024
    healed = Failing()
    healed.fails = False
    rookery.resume(broken, callbacks=[healed])
    assert rows_of(broken) == rows_of(whole.path)
    assert len(rows_of(broken)) == whole.episodes


def test_evaluations_and_progress_are_of_one_step(tmp_path: Path) -> None:
    """A panel that shows an evaluation has the other figures of the same step."""
    result = train("ppo", tmp_path, evaluation={"episodes": 1, "every": 256})
    events = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    told = -1
    for event in events:
        told = event["step"] if event["kind"] == "progress" else told
        assert event["kind"] not in ("evaluation", "checkpoint") or event["step"] == told
    progress = [event for event in events if event["kind"] == "progress" and "episodes" in event]
    assert all(event["seconds"] > 0 and event["episodes_per_second"] >= 0 for event in progress)
    assert progress[-1]["episodes"] == result.episodes


def test_the_first_round_has_no_speed(tmp_path: Path) -> None:
    """It may have waited for a compiler; the summary says for how long."""
    result = train("ppo", tmp_path, evaluation={"episodes": 1, "every": 64})
    events = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    first, *later = [event["steps_per_second"] for event in events if "steps_per_second" in event]
    assert first is None and later and all(speed > 0 for speed in later)
    end = events[-1]
    assert end["evaluation_seconds"] > 0 and 0 <= end["start_seconds"] < end["seconds"]


@pytest.mark.parametrize("every", [64, 10_000])
def test_the_last_evaluation_is_in_the_metrics_too(every: int, tmp_path: Path) -> None:
    """The time that it took, and what a callback has logged then."""

    class Logs(rookery.Callback):
        def on_evaluation(self, run: rookery.RunControl, metrics: Any) -> None:
            run.log(**{"mine/evaluated": 1.0})

    result = rookery.train(small("ppo", tmp_path, steps=128, evaluation={"every": every}), callbacks=[Logs()])
    events = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    last = [event for event in events if event["kind"] == "progress"][-1]
    assert last["mine/evaluated"] == 1.0
    assert last["time/other"] + last.get("time/evaluation", 0.0) > 0.5


def test_no_file_if_the_config_says_so(tmp_path: Path) -> None:
    result = train("ppo", tmp_path, steps=128, monitor={**QUIET, "episodes": False})
    assert not (result.path / "episodes.jsonl").exists()


def test_a_sample_is_announced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (episode_file, recent_episodes):
        monkeypatch.setattr(module, "ALL_UP_TO", 5)
    notes: list[str] = []
    file = EpisodeFile(tmp_path)
    records = EpisodeRecords(file, _NoCollector(), notes.append)  # type: ignore[arg-type]
    for before in range(0, 30, 3):
        records.add(before, before, np.zeros(4, EPISODE), 3)
    file.close()
    numbers = [row["episode"] for row in rows_of(tmp_path)]
    assert numbers == [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24]
    assert len(notes) == 1 and "a sample" in notes[0]


def test_a_full_disk_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once, and the file is left."""

    def full(file: Any, record: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(episode_file, "append_record", full)
    notes: list[str] = []
    records = EpisodeRecords(EpisodeFile(tmp_path), _NoCollector(), notes.append)  # type: ignore[arg-type]
    for before in range(3):
        records.add(before, before, np.zeros(1, EPISODE), 1)
        records.flush()
    assert len(notes) == 1 and "No space left" in notes[0] and "continues" in notes[0]


class _NoCollector:
    on_final_infos = None


def add_end(infos: FinalInfos, env: int, **info: Any) -> None:
    """One of three envs has ended an episode with these infos."""
    ended = np.arange(3) == env
    final = {name: np.where(ended, value, None) for name, value in info.items()}
    infos.add(slice(0, 3), {"final_info": {**final, **{f"_{name}": ended for name in info}}, "_final_info": ended})


def records_of(*envs: int) -> np.ndarray:
    records = np.zeros(len(envs), EPISODE)
    records["env"] = envs
    return records


def test_an_episode_without_infos_does_not_take_those_of_the_next() -> None:
    infos = FinalInfos()
    for env, info in ((0, {}), (2, {"x": 12}), (0, {"x": 10}), (0, {})):
        add_end(infos, env, **info)
    assert infos.take(records_of(0, 2, 0, 0)) == [{}, {"x": 12}, {"x": 10}, {}]
    assert infos.take(records_of(0)) is None


def test_records_that_an_engine_has_dropped_are_the_oldest() -> None:
    """It keeps a limited number of them. Of envs of other processes there are no infos here."""
    infos = FinalInfos()
    for x in range(4):
        add_end(infos, x % 2, x=x)
    assert infos.take(records_of(1, 0, 1, 5)) == [{"x": 1}, {"x": 2}, {"x": 3}, {}]


def test_texts_are_kept_if_another_env_has_none() -> None:
    """Where two envs end in one step, and the first has no infos."""
    infos, name = FinalInfos(), np.array([None, "mine"], dtype=object)
    both = np.array([True, True])
    infos.add(slice(0, 2), {"final_info": {"name": name, "_name": ~both | (name == "mine")}, "_final_info": both})
    assert infos.take(records_of(0, 1)) == [{}, {"name": "mine"}]
