"""How sure an evaluation is: more episodes while it is not, and a best one that is better by more than noise."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rookery
from rookery.errors import ConfigError
from rookery.training.evaluation.evaluator import Evaluator, steps_in_that_time
from rookery.training.evaluation.win_record import interval_of, is_better, is_wide
from rookery.training.resolve.seats import seat_of
from rookery.training.resolve.world_choice import World, duel_of, find
from rookery.training.storage.checkpoint import Checkpoints
from training.evaluation.test_episodes import agent_for
from training.runs import QUIET
from training.tug import TUG, agent, write_agent

pytestmark = pytest.mark.usefixtures("all_allowed")


class Coin(gym.Env):
    """One step, with a reward of 1 in some of the episodes. With a chance of 1 all episodes are the same."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, chance: float = 0.3, length: int = 1) -> None:
        self.chance, self.length = chance, length

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.prize, self.left = float(self.np_random.random() < self.chance), self.length
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.left -= 1
        return np.zeros(1, np.float32), self.prize / self.length, self.left == 0, False, {}


def evaluate(chance: float, episodes: int = 10, length: int = 1, most_steps: float = np.inf, **options: Any) -> Any:
    world = World("coin", Coin, kernel=False, env_kwargs={"chance": chance, "length": length})
    with closing(Evaluator(world, "serial", episodes, 3, num_envs=4, **options)) as evaluator:
        return evaluator.run(agent_for(world), most_steps=most_steps)


def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    """Of normal numbers, even of few: 95 in 100."""
    random = np.random.default_rng(0)
    for count in (3, 10, 40):
        ends = [interval_of(random.normal(5.0, 2.0, count).tolist()) for _ in range(2000)]
        assert 0.93 < np.mean([low <= 5.0 <= high for low, high in ends]) < 0.97


def test_more_episodes_while_the_interval_is_wide() -> None:
    """Up to a number, in rounds; the first ones are the same as without further ones."""
    few, many = evaluate(0.3), evaluate(0.3, max_episodes=35)
    assert (len(few.returns), len(many.returns)) == (10, 35)
    assert many.returns[:10] == few.returns
    metrics = many.metrics()
    assert metrics["eval/return_low"] < metrics["eval/return"] < metrics["eval/return_high"]
    assert metrics["eval/episodes"] == 35
    assert evaluate(0.3, max_episodes=35).returns == many.returns


def test_no_more_than_needed() -> None:
    """Neither for episodes that are all the same, nor for a narrow interval, nor beyond the steps that are allowed."""
    assert len(evaluate(1.0, max_episodes=40).returns) == 10
    assert len(evaluate(0.0, max_episodes=40).returns) == 10
    assert len(evaluate(0.9, max_episodes=4000).returns) < 200
    assert len(evaluate(0.3, length=5, max_episodes=40, most_steps=110).returns) == 20
    assert len(evaluate(0.3, episodes=1, max_episodes=4).returns) == 1  # one episode has no interval
    assert not is_wide([500.0] * 10) and is_wide([0.0, 0.1])


def test_episodes_count_with_the_longest_beside_them() -> None:
    """The envs of the others wait for it, so that an evaluation may take longer than its steps say."""
    lengths = [10] * 9 + [100]
    assert steps_in_that_time(lengths, 10) == 1000 and steps_in_that_time(lengths, 1) == sum(lengths)


def test_more_games_too(tmp_path: Path) -> None:
    """Against all opponents alike, continuing where the first games ended."""
    place = write_agent(tmp_path, "def act(self, obs):\n    return [0.1]")
    results = []
    for options in ({}, {"max_episodes": 14}):
        with closing(Evaluator(TUG, "serial", 6, 1, opponents=[place, place], num_envs=3, **options)) as evaluator:
            results.append(evaluator.run(agent()))
    few, many = results
    assert (few.metrics()["eval/episodes"], many.metrics()["eval/episodes"]) == (12, 28)
    assert many.returns[: len(few.returns)] == few.returns and many.lengths[:12] == few.lengths


@pytest.mark.parametrize(
    ("returns", "best", "better"),
    [
        ([5.0], [4.0], True),
        ([4.0], [4.0], False),
        ([10.0, 20.0, 31.0], [9.0, 20.0, 29.0], True),
        ([0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0], False),
        ([3.0] * 4, [2.9] * 4, True),
        ([9.0, 9.0, 0.0, 0.0], [1.0, 1.0], False),  # better in the first episodes only, and that is not enough
        ([93.0, 92.0, 93.0, 92.0], [98.0, 97.0, 98.0, -2.0], True),  # the best one sometimes fails, this one never
        ([float("nan")], [1.0], False),
    ],
)
def test_better_means_by_more_than_noise(returns: list[float], best: list[float], better: bool) -> None:
    mean = 5.0 if len(best) == 2 else float(np.mean(best))
    assert is_better(returns, best, mean) is better


def test_small_steps_add_up() -> None:
    """Each evaluation is better by less than its noise; in the end the best one is far from the first."""
    random = np.random.default_rng(4)
    best, bests = random.normal(0.0, 1.0, 10), 0
    for step in range(1, 40):
        now = random.normal(0.1 * step, 1.0, 10)
        if is_better(now.tolist(), best.tolist(), float(best.mean())):
            best, bests = now, bests + 1
    assert best.mean() > 2.0 and 3 <= bests < 25


def test_a_best_of_an_earlier_version_has_a_mean_only() -> None:
    assert is_better([5.0, 5.1], [], 4.0) and not is_better([1.0, 9.0], [], 4.9)


def train_coin(folder: Path, **options: Any) -> Any:
    return rookery.train(
        Coin, num_envs=2, backend="serial", learner="ppo", ppo={"rollout_length": 32, "hidden": [8], "threads": 1},
        steps=512, seed=1, runs_dir=folder, monitor=QUIET, **options,
    )  # fmt: skip


def test_a_run_whose_returns_are_noise_keeps_its_best(tmp_path: Path) -> None:
    """The policy cannot change these returns, so no evaluation is better than the first. All have an interval."""
    result = train_coin(tmp_path, evaluation={"every": 64, "episodes": 10}, checkpoints={"every": 64, "keep": 9})
    lines = [json.loads(line) for line in (result.path / "evaluations.jsonl").read_text().splitlines()]
    assert [line["eval/best"] for line in lines] == [True] + [False] * (len(lines) - 1)
    assert {line["eval/episodes"] for line in lines} == {10}  # further ones would be many beside 64 steps
    assert all(line["eval/return_low"] < line["eval/return"] < line["eval/return_high"] for line in lines)
    assert Checkpoints(result.path / "checkpoints").best()[0].path.name == f"step-{lines[0]['step']:012d}"
    summary = json.loads((result.path / "summary.json").read_text())
    assert summary["eval/return_low"] == lines[-1]["eval/return_low"]
    again = rookery.resume(result.path, steps=640)
    assert again.best_evaluation == lines[0]["eval/return"]


def test_the_number_can_be_set(tmp_path: Path) -> None:
    result = train_coin(tmp_path, evaluation={"every": 512, "episodes": 10, "max_episodes": 30})
    (line,) = (result.path / "evaluations.jsonl").read_text().splitlines()
    assert json.loads(line)["eval/episodes"] == 30
    with pytest.raises(ConfigError, match=r"`evaluation\.max_episodes` = 5 should be >= `evaluation\.episodes` = 10"):
        train_coin(tmp_path, evaluation={"max_episodes": 5})


def test_one_that_reaches_the_goal_is_the_best(tmp_path: Path) -> None:
    """Also if that is within noise: `--best` should give what ended the run."""
    result = rookery.train(
        "CartPole-v1", num_envs=4, steps=4096, seed=1, runs_dir=tmp_path, monitor=QUIET,
        evaluation={"every": 512, "episodes": 4, "stop_at": 30.0},
    )  # fmt: skip
    lines = [json.loads(line) for line in (result.path / "evaluations.jsonl").read_text().splitlines()]
    assert result.reason == "goal reached" and lines[-1]["eval/best"]


def test_games_with_later_numbers_are_those_of_a_longer_match() -> None:
    hockey = find("hockey", options={"time_limit": 30})
    seat = seat_of(*duel_of(hockey).spaces)
    with closing(Evaluator(hockey, "kernel", 6, 1, opponents=["weak"])) as evaluator:
        games = evaluator._opponent_games
        whole = games.play(agent(seat=seat), 6, 1)["weak"]
        first, later = (games.play(agent(seat=seat), n, 1, first=k)["weak"] for n, k in ((2, 0), (4, 2)))
    joined = first.joined(later)
    assert joined.winners.tolist() == whole.winners.tolist() and joined.lengths.tolist() == whole.lengths.tolist()
