"""Runs with large images: shrunk by themselves or as asked, recorded, resumed, evaluated and shown alike."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rookery
from rookery.config import build_config
from rookery.errors import ConfigError, MemoryShortage, OptionError, RunError
from rookery.learners.plain_spaces import StackedBox
from rookery.learners.registry import DQNOptions, PPOOptions
from rookery.training.evaluation.evaluate import evaluate
from rookery.training.evaluation.trained_run import open_run
from rookery.training.resolve.resolved_run import resolve_recorded_run
from rookery.training.run import out_of_memory
from rookery.training.run.out_of_memory import LearnerSize, _replayed_bytes, announce_size, check_memory, learner_size
from rookery.training.run.stop_request import StopRequest
from rookery.training.show.rendered_env import open_rendered
from training.runs import QUIET, differences, last_state

LARGE = spaces.Box(0, 255, (1000, 1000, 3), np.uint8)
CHOICE = spaces.Discrete(3)
PPO: dict[str, Any] = {"rollout_length": 8, "epochs": 1, "hidden": [8], "threads": 1}


class Camera(gym.Env):
    """A bright square in a large picture; its column is the right action."""

    action_space = CHOICE
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, side: int = 264, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Box(0, 255, (side, side, 3), np.uint8)
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._look(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.column)
        self.time += 1
        return self._look(), reward, False, self.time == 12, {}

    def _look(self) -> np.ndarray:
        side = self.observation_space.shape[0]  # type: ignore[index]
        self.column = int(self.np_random.integers(3))
        self.image = np.zeros((side, side, 3), np.uint8)
        self.image[:, self.column * side // 3 : (self.column + 1) * side // 3] = 250
        return self.image

    def render(self) -> np.ndarray:
        return self.image


def train(folder: Path, **options: Any) -> Any:
    base = {"num_envs": 2, "backend": "serial", "steps": 48, "learner": "ppo", "ppo": PPO, "monitor": QUIET}
    fixed = {"evaluation": {"episodes": 1, "every": 1000}, "checkpoints": {"every": 16}}
    return rookery.train(Camera, runs_dir=folder, **(base | fixed | options))


def recorded(run: Path) -> Any:
    return json.loads((run / "config.json").read_text())["image_size"]


def test_a_large_image_is_shrunk_and_the_run_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With one line about what it would be otherwise; the run records the size."""
    result = train(tmp_path, steps=16)
    told = [line for line in caplog.messages if "shrunk" in line]
    assert len(told) == 1 and "264 x 264 x 3 are shrunk to 84 x 84" in told[0] and "image_size=full" in told[0]
    assert "million weights" in told[0] and "per checkpoint" in told[0]
    assert recorded(result.path) == [84, 84] and result.agent.observation_space.shape == (84, 84, 3)


@pytest.mark.slow
def test_everything_after_a_run_uses_its_image_size(tmp_path: Path) -> None:
    """Evaluating, also with other options of the world, and watching: the agent sees small images, the user large
    ones."""
    result = train(tmp_path, steps=16, image_size=24)
    assert evaluate(result.path, episodes=1)["episodes"] == 1
    assert evaluate(result.path, episodes=1, world_options={"side": 300})["episodes"] == 1
    with open_rendered(open_run(result.path, "runs", best=False).world) as shown:
        assert shown.env.reset(seed=1)[0].shape == (24, 24, 3) and shown.frame().shape == (264, 264, 3)


@pytest.mark.slow
def test_a_resumed_run_sees_the_same_images(tmp_path: Path) -> None:
    """Bit for bit, from a checkpoint on the way."""
    whole = train(tmp_path / "whole", image_size=[24, 32], steps=32)
    part = train(tmp_path / "part", image_size=[24, 32], steps=16)
    assert recorded(part.path) == [24, 32]
    resumed = rookery.resume(part.path, steps=32)
    assert not differences(last_state(whole.path), last_state(resumed.path))
    with pytest.raises(ConfigError, match="`image_size` cannot change"):
        rookery.resume(part.path, steps=60, image_size=84)


def test_usual_images_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No word is said, and the config records that they are whole."""
    result = train(tmp_path, world_options={"side": 32}, steps=16)
    assert recorded(result.path) == "full" and "shrunk" not in caplog.text
    assert result.agent.observation_space.shape == (32, 32, 3)


def test_small_images_are_read_as_vectors(tmp_path: Path) -> None:
    """The checkpoint says so, so that an agent with convolutions for such images, from an older run, still loads."""
    result = train(tmp_path, steps=16, world_options={"side": 10})
    assert json.loads((result.path / "config.json").read_text())["ppo"]["images"] == "flat"
    assert not list(rookery.load(result.path).policy.encoder.parameters())
    older = train(tmp_path, steps=16, world_options={"side": 10}, ppo=PPO | {"images": "cnn"}, name="older")
    assert list(rookery.load(older.path).policy.encoder.parameters())


def test_a_run_of_before_is_not_shrunk() -> None:
    """A config without the key is of a run whose agent saw all pixels."""
    config = build_config({"world": f"{__file__}:Camera", "learner": "ppo"})
    assert config.image_size == "auto" and resolve_recorded_run(config).world.image_size == "full"
    assert resolve_recorded_run(config).config.image_size == "full"


def test_a_size_for_a_world_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no image"):
        rookery.train("CartPole-v1", runs_dir=tmp_path, image_size=84, num_envs=1, backend="serial")


# --- how large a run will be --------------------------------------------------------------------------------------


def test_sizes_are_known_before_anything_is_made() -> None:
    """1000 x 1000 x 3: 480 million weights; nothing of that is allocated."""
    size = learner_size("ppo", LARGE, CHOICE, PPOOptions(rollout_length=16), num_envs=2)
    assert 479e6 < size.nets / 4 < 481e6 and size.rollout == 2 * 16 * 3_000_000
    assert size.memory == 4 * size.nets + size.rollout and size.checkpoint == 3 * size.nets
    assert "480 million weights" in str(LearnerSize(480_000_000 * 4)).replace(".0", "")


def test_a_rollout_that_does_not_fit_is_refused() -> None:
    """Observations take most of the memory: 2,000,000 envs x 128 x 3 MB."""
    config = build_config("CartPole-v1", learner="ppo", device="cpu")
    with pytest.raises(MemoryShortage, match=r"the rollout.*`num_envs` \(2,000,000 now.*image_size=84"):
        check_memory(config, LARGE, CHOICE, num_rows=2_000_000)


def test_checkpoints_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error if none fits on the disk, a line if not all do; the size of a large learner is always said."""
    call = ("ppo", (LARGE, CHOICE), PPOOptions(), 1, tmp_path / "runs", 3)
    monkeypatch.setattr(out_of_memory, "_free_disk", lambda folder: 6 << 30)
    announce_size(*call)
    told = caplog.text
    assert "479.9 million weights" in told and "5.4 GiB per checkpoint" in told and "image_size=84" in told
    assert "checkpoints.keep=1" in told
    monkeypatch.setattr(out_of_memory, "_free_disk", lambda folder: 1 << 30)
    with pytest.raises(RunError, match=r"no checkpoint fits .* 1.0 GiB are free"):
        announce_size(*call)
    wide = spaces.Box(0, 255, (1200, 1200, 3), np.uint8)
    with pytest.raises(RunError, match=r"an agent of 2\.\d GiB cannot be saved"):
        announce_size("ppo", (wide, CHOICE), *call[2:])


def test_frames_of_stacks_are_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In a replay buffer, whose size the run tells before it begins."""
    screens, options = spaces.Box(0, 255, (4, 84, 84), np.uint8), DQNOptions(buffer_size=1_000_000)
    assert _replayed_bytes(screens, options) == 2 * 4 * 84 * 84
    assert _replayed_bytes(StackedBox.of(screens), options) < 7600
    announce_size("dqn", (StackedBox.of(screens), CHOICE), options, 8, tmp_path, 3)
    assert "1,000,000 transitions take 7.0 GiB instead of 52.6 GiB" in caplog.text


# --- signals before the first step --------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_ends_the_preparations_at_once(number: int, error: type[BaseException]) -> None:
    """There is nothing to save yet. From the first step on, a signal only asks the run to stop."""
    with StopRequest() as stop:
        with pytest.raises(error) as raised:
            os.kill(os.getpid(), number)
        if error is SystemExit:
            assert raised.value.code == 128 + number  # type: ignore[attr-defined]
        stop.begin()
        os.kill(os.getpid(), number)
        assert stop.asked and stop.exit_code == 128 + number


class StopAtOnce(rookery.Callback):
    """Is asked to stop before the first step."""

    def on_start(self, run: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_that_is_stopped_before_its_first_step_saves_nothing(tmp_path: Path) -> None:
    """It learned nothing; resumed, it starts from the beginning."""
    result = train(tmp_path, steps=16, world_options={"side": 32}, callbacks=[StopAtOnce()])
    assert result.reason == "interrupted" and result.total_steps == 0 and result.exit_code == 143
    assert not list((result.path / "checkpoints").glob("*"))
