"""Runs from Python: what `rookery.train`, `resume` and `load` give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.errors import OptionError, RunError, WorldError
from training.runs import QUIET, differences, last_state, small, train


@pytest.mark.few(1)
@pytest.mark.draws
@pytest.mark.parametrize("learner", ["ppo", "sac", "dqn", "pqn"])
def test_a_run_leaves_everything_in_its_folder(learner: str, tmp_path: Path) -> None:
    """The resolved config, metrics, evaluations, checkpoints and a summary; the result can be subscripted."""
    result = train(learner, tmp_path, monitor={"panel": False})
    assert result["total_steps"] == result.total_steps == 1024
    assert result.run_name.endswith("_vec4") and result.path == tmp_path / result.run_name
    config = json.loads((result.path / "config.json").read_text())
    assert config["backend"] == "kernel" and config["learner"] == learner and config[learner]["threads"] == 1
    summary = json.loads((result.path / "summary.json").read_text())
    assert summary["steps"] == 1024 and summary["reason"] == "finished" and summary["eval/return"] == result.evaluation
    assert (result.path / "plots" / "learning.png").stat().st_size > 10_000
    assert list((result.path / "tensorboard").iterdir())
    kinds = [json.loads(line)["kind"] for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    assert kinds[0] == "start" and kinds[-1] == "end" and "checkpoint" in kinds and "evaluation" in kinds


@pytest.mark.parametrize("works", [True, False])
def test_the_plot_is_drawn_after_the_summary_was_printed(works: bool, tmp_path: Path, monkeypatch, capsys) -> None:
    """A person who waits for the result does not wait for the plot; if it fails, the summary does not name it."""
    seen: dict[str, Any] = {}

    def draw(folder: Path) -> Path | None:
        seen.update(json.loads((folder / "summary.json").read_text()), printed=capsys.readouterr().out)
        return folder if works else None

    monkeypatch.setattr("rookery.training.run.run_end.plot_run_early", draw)
    result = train("ppo", tmp_path, monitor={"panel": False})
    plot = str(result.path / "plots" / "learning.png")
    assert "finished" in seen["printed"] and plot in seen["printed"] and seen["plot"] == plot
    left = json.loads((result.path / "summary.json").read_text())
    assert left.get("plot") == (plot if works else None) and left["steps"] == 1024


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    """And another seed gives others."""
    first, second, other = (train("ppo", tmp_path / f"{k}", seed=seed) for k, seed in enumerate((1, 1, 2)))
    assert not differences(last_state(first.path), last_state(second.path))
    assert differences(last_state(first.path), last_state(other.path))


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_backends_agree(backend: str, tmp_path: Path) -> None:
    """Gymnasium's own world gives the same weights whether its envs are stepped here, or in processes by one group."""
    here = train("ppo", tmp_path / "here", backend="serial", groups=1)
    there = train("ppo", tmp_path / "there", backend=backend, workers=2 if backend == "process" else 1, groups=1)
    assert not differences(last_state(here.path), last_state(there.path))


def test_two_groups_repeat_exactly(tmp_path: Path) -> None:
    """What overlaps is scheduled by counts: the same run twice gives the same weights, in processes and serially."""
    options: dict[str, Any] = {"groups": 2, "steps": 512}
    runs = [
        train("ppo", tmp_path / "a", backend="process", workers=2, **options),
        train("ppo", tmp_path / "b", backend="process", workers=2, **options),
        train("ppo", tmp_path / "c", backend="serial", workers=1, **options),
    ]
    assert not differences(last_state(runs[0].path), last_state(runs[1].path))
    assert not differences(last_state(runs[0].path), last_state(runs[2].path))


@pytest.mark.slow
def test_off_policy_learners_learn_while_processes_step(tmp_path: Path) -> None:
    """An update between sending and receiving gives the same weights as it does serially."""
    there = train("dqn", tmp_path / "there", backend="process", workers=2, steps=512)
    here = train("dqn", tmp_path / "here", backend="serial", steps=512)
    assert not differences(last_state(here.path), last_state(there.path))


def test_a_loaded_agent_plays_gymnasiums_own_env(tmp_path: Path) -> None:
    """It takes batches of one, deterministically the same as the agent that was trained."""
    result = train("ppo", tmp_path)
    agent = rookery.load(result.run_name, tmp_path)
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    for _ in range(20):
        action = agent.act(observation[None], deterministic=True)
        assert action == result.agent.act_batch(observation[None], deterministic=True)
        observation, _, terminated, _, _ = env.step(action[0])
        if terminated:
            break
    env.close()


def test_load_finds_the_latest_and_the_best(tmp_path: Path) -> None:
    """By name, by path, or as the run that was started last."""
    train("ppo", tmp_path, name="first", seed=1)
    last = train("ppo", tmp_path, name="second", seed=2)
    observations = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    wanted = rookery.load(last.path).policy.state_dict()
    found = rookery.load("latest", tmp_path).policy.state_dict()
    assert all((wanted[name] == found[name]).all() for name in wanted)
    assert rookery.load("first", tmp_path, best=True).act(observations).shape == (64,)
    with pytest.raises(RunError, match="first"):
        rookery.load("frist", tmp_path)


def test_a_run_ends_by_episodes_or_by_its_goal(tmp_path: Path) -> None:
    """Whichever comes first."""
    few = train("ppo", tmp_path, episodes=5, steps=100_000)
    assert few.total_steps < 2_000 and few.episodes >= 5
    goal = {"stop_at": 1.0, "every": 128, "episodes": 1}
    quick = train("ppo", tmp_path, evaluation=goal, steps=100_000)
    assert quick.reason == "goal reached" and quick.total_steps < 2_000


def test_a_class_can_be_trained_on_and_resumed(tmp_path: Path) -> None:
    """A run remembers the file of its world by its whole path."""
    file = tmp_path / "my_world.py"
    file.write_text(
        "import gymnasium as gym, numpy as np\n"
        "class Guess(gym.Env):\n"
        "    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)\n"
        "    action_space = gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        self.t, self.side = 0, float(self.np_random.choice([-1.0, 1.0]))\n"
        "        return np.array([self.side, 0], np.float32), {}\n"
        "    def step(self, action):\n"
        "        self.t += 1\n"
        "        reward = float((action == 1) == (self.side > 0))\n"
        "        return np.array([self.side, 0], np.float32), reward, self.t >= 5, False, {}\n"
    )
    options = small("ppo", tmp_path / "runs", backend="serial", steps=2048, ppo={"learning_rate": 0.01})
    result = rookery.train({**options, "world": f"{file}:Guess"})
    assert result.evaluation == 5.0
    again = rookery.resume(result.run_name, str(tmp_path / "runs"), steps=2304)
    assert again.total_steps == 2304


def test_resume_of_a_finished_run_says_so(tmp_path: Path) -> None:
    """It stands where it was; more steps must be requested."""
    done = train("ppo", tmp_path, steps=256)
    again = rookery.resume(done.run_name, str(tmp_path))
    assert again.total_steps == done.total_steps and again.reason == "finished"


def test_unknown_worlds_and_unfit_learners_are_refused(tmp_path: Path) -> None:
    """With the near names, and with who can serve."""
    with pytest.raises(WorldError, match="CartPole-v1"):
        rookery.train("CartPool-v1", runs_dir=tmp_path)
    with pytest.raises(OptionError, match="sac"):
        rookery.train("Pendulum-v1", learner="dqn", runs_dir=tmp_path)
    with pytest.raises(OptionError, match=r"learner.*ppo"):
        rookery.train("CartPole-v1", learner="pppo", runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_old_trainers_keywords_work(tmp_path: Path) -> None:
    """`n_envs`, `base_output_dir`, `eval_freq_steps` and the rest."""
    result = rookery.train(
        "CartPole-v1",
        n_envs=4,
        base_output_dir=str(tmp_path / "out"),
        checkpoint_dir=str(tmp_path / "kept"),
        eval_freq_steps=256,
        eval_num_games=1,
        total_timesteps=512,
        learning_rate=1e-3,
        monitor=QUIET,
        ppo={"rollout_length": 16},
    )
    assert result["run_name"].endswith("_vec4") and result["total_steps"] == 512 and "mean_reward" in result
    assert (tmp_path / "out" / result.run_name / "config.json").exists()
    assert list((tmp_path / "kept" / result.run_name).iterdir())
    assert len((result.path / "evaluations.jsonl").read_text().splitlines()) == 2


def test_bad_values_never_reach_the_weights(tmp_path: Path) -> None:
    """A world that returns NaN ends the run with an error that names it; the last checkpoint stays."""
    file = tmp_path / "bad.py"
    file.write_text(
        "import gymnasium as gym, numpy as np\n"
        "class Bad(gym.Env):\n"
        "    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)\n"
        "    action_space = gym.spaces.Discrete(2)\n"
        "    steps = 0\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        return np.zeros(1, np.float32), {}\n"
        "    def step(self, action):\n"
        "        self.steps += 1\n"
        "        return np.full(1, np.nan if self.steps > 100 else 0, np.float32), 0.0, False, False, {}\n"
    )
    options = small("ppo", tmp_path / "runs", backend="serial", checkpoints={"every": 64}, name="bad")
    with pytest.raises(rookery.errors.BadValue, match="env 0"):
        rookery.train({**options, "world": f"{file}:Bad"})
    weights = rookery.load("bad", tmp_path / "runs").policy.state_dict()
    assert all(value.isfinite().all() for value in weights.values())
    summary = json.loads((tmp_path / "runs" / "bad" / "summary.json").read_text())
    assert summary["reason"].startswith("failed: BadValue")


def test_how_episodes_went_is_told_while_training(tmp_path):
    """A world's last infos become figures of progress and of the summary: here, how many games were won."""
    keys = {"world": "hockey", "world_options": {"opponent": "weak", "time_limit": 40}, "num_envs": 8, "steps": 4096}
    result = train("ppo", tmp_path, **keys)
    summary = json.loads((result.path / "summary.json").read_text())
    assert 0.0 <= summary["win_rate_last_10"] <= 1.0
    lines = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    told = [line["episode/win_rate"] for line in lines if line["kind"] == "progress" and "episode/win_rate" in line]
    assert told and all(0.0 <= rate <= 1.0 for rate in told)


def test_evaluations_have_a_share_of_the_time(tmp_path: Path) -> None:
    """Of their own, so that nobody looks for it in the rest."""
    result = train("ppo", tmp_path, evaluation={"every": 256, "episodes": 3})
    lines = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    shares = [line["time/evaluation"] for line in lines if line["kind"] == "progress"]
    assert max(shares) > 0 and all(0 <= share <= 1 for share in shares)
