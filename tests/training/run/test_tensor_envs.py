"""Vector envs of other libraries that return tensors: here a small one, on the CPU."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

import rookery
from rookery.engine.tensor_vector_env import TensorVectorEnv
from rookery.errors import OptionError, WorldError
from training.runs import last_state

LENGTH = 10
SMALL: dict[str, Any] = {
    "steps": 512, "seed": 3, "verbose": False,
    "ppo": {"rollout_length": 16, "hidden": [16], "epochs": 4, "threads": 1, "learning_rate": 0.01},
    "evaluation": {"episodes": 6, "every": 512}, "checkpoints": {"every": 512}, "learner": "ppo",
}  # fmt: skip


class Aim(VectorEnv):
    """The action should be the sign of the number that is shown. Rows end at different times: by their time limit, or
    by the env after a lucky number."""

    def __init__(
        self,
        num_envs: int = 8,
        mode: AutoresetMode | None = AutoresetMode.SAME_STEP,
        finals: bool = True,
        dicts: bool = False,
    ) -> None:
        self.num_envs, self.mode, self.finals, self.dicts = num_envs, mode, finals, dicts
        self.metadata = {} if mode is None else {"autoreset_mode": mode}
        box = gym.spaces.Box(-3, 3, (2,), np.float32)
        self.single_observation_space = gym.spaces.Dict(policy=box) if dicts else box
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self.random, self.open, self.was_reset = torch.Generator(), True, 0
        self.over = torch.zeros(num_envs, dtype=torch.bool)

    def _draw(self) -> torch.Tensor:
        return torch.randn(self.num_envs, generator=self.random).clamp(-3, 3)

    def _see(self) -> Any:
        seen = torch.stack([self.number, self.time / LENGTH], 1)
        return {"policy": seen} if self.dicts else seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.was_reset += 1
        if seed is not None:
            self.random.manual_seed(seed)
        mask = (options or {}).get("reset_mask")
        if mask is None:
            self.number, self.time = self._draw(), torch.arange(self.num_envs) % LENGTH + 0.0
            self.over.zero_()
        else:
            assert bool(self.over[mask].all())
            self._begin(mask)
        return self._see(), {}

    def _begin(self, rows: torch.Tensor) -> None:
        self.number = torch.where(rows, self._draw(), self.number)
        self.time, self.over = self.time.masked_fill(rows, 0.0), self.over & ~rows

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        assert isinstance(actions, torch.Tensor) and actions.dtype == torch.int64
        resetting = self.over.clone()
        assert self.mode is AutoresetMode.NEXT_STEP or not bool(resetting.any())
        rewards = ((actions == 1) == (self.number > 0)).float().masked_fill(resetting, 5.0)
        terminated = (self.number > 2.0) & ~resetting
        self.number, self.time = self._draw(), self.time + 1
        truncated = (self.time >= LENGTH) & ~resetting
        self._begin(resetting)
        self.over, infos = terminated | truncated, {}
        if self.mode in (None, AutoresetMode.SAME_STEP):
            if self.finals and bool(self.over.any()):
                infos = {"final_obs": self._see(), "_final_obs": self.over}
            self._begin(self.over)
        return self._see(), rewards, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        self.open = False


MODES = [(mode, True) for mode in AutoresetMode] + [(None, True), (AutoresetMode.SAME_STEP, False)]


@pytest.mark.parametrize(("mode", "finals"), MODES)
def test_episodes_and_final_observations(mode: AutoresetMode | None, finals: bool) -> None:
    """Beside a count by hand of what the env itself returns."""
    envs, notes = TensorVectorEnv(Aim(5, mode, finals)), []
    envs.on_note = notes.append
    torch.manual_seed(1)
    seen, _ = envs.reset(seed=4)
    total, length = np.zeros(5), np.zeros(5)
    resetting, count, before = np.zeros(5, bool), np.zeros(5), seen.clone()
    for _ in range(60):
        observations, rewards, terminated, truncated, infos = envs.step(torch.randint(2, (5,)))
        ended = (terminated | truncated).numpy()
        assert envs.present()[0] is observations and infos["_final_obs"].tolist() == ended.tolist()
        assert not rewards.numpy()[resetting].any() and truncated.numpy()[resetting].all()
        real = ended & ~resetting
        total += rewards.numpy() * ~resetting
        length += ~resetting
        for row in np.flatnonzero(real):
            assert float(envs.last_returns[row]) == total[row] and int(envs.last_lengths[row]) == length[row]
            last, reached = infos["final_obs"][row], float(infos["final_obs"][row][1])
            if not finals:
                assert torch.equal(last, before[row])
            elif bool(truncated[row]) and not bool(terminated[row]):
                assert reached == 1.0
        for row in np.flatnonzero(resetting):
            assert torch.equal(infos["final_obs"][row], before[row])
        assert (envs.episodes_begun().numpy() - 1 == (count := count + real)).all()
        total[real] = length[real] = 0
        resetting = real if mode is AutoresetMode.NEXT_STEP else np.zeros(5, bool)
        before = observations.clone()
    assert count.min() > 1
    expected = {None: "autoreset_mode", AutoresetMode.NEXT_STEP: "NEXT_STEP"}.get(mode, "" if finals else "final_obs")
    assert len(notes) == bool(expected) and all(expected in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_a_vector_env_is_trained_and_resumed(mode: AutoresetMode, tmp_path: Path) -> None:
    envs = Aim(8, mode, dicts=True)
    result = rookery.train(envs, runs_dir=tmp_path, **{**SMALL, "steps": 3072})
    assert result.total_steps == 3072 and envs.open
    longer = rookery.resume(result.path, steps=4096, world=envs)
    assert longer.total_steps == 4096 and json.loads((result.path / "config.json").read_text())["backend"] == "tensor"
    assert "cannot save its state" in (result.path / "metrics.jsonl").read_text()
    shown = torch.linspace(-2.0, 2.0, 100)
    actions = longer.agent.act({"policy": torch.stack([shown, torch.full_like(shown, 0.5)], 1)}, deterministic=True)
    assert isinstance(actions, torch.Tensor) and int((actions == (shown > 0)).sum()) > 80


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_same_seed_same_weights(learner: str, tmp_path: Path) -> None:
    own = {"dqn": {"hidden": [8], "start_steps": 64, "buffer_size": 400, "batch_size": 16, "threads": 1}}
    options = {**SMALL, "learner": learner, **(own if learner == "dqn" else {})}
    runs = [rookery.train(Aim(8), runs_dir=tmp_path / name, **options) for name in "ab"]
    one, other = (last_state(run.path)["policy"] for run in runs)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def annotated(num_envs: int = 4) -> Aim:
    return Aim(num_envs)


@pytest.mark.few(1)
@pytest.mark.parametrize(("make", "count"), [(Aim, 8), (functools.partial(Aim, 6), 6), (annotated, 4)])
def test_what_makes_a_vector_env(make: Any, count: int, tmp_path: Path) -> None:
    """Evaluations have envs of their own; all are closed."""
    result = rookery.train(make, runs_dir=tmp_path, **{**SMALL, "steps": 128})
    assert result.total_steps >= 128 and result.path.name.endswith(f"_vec{count}")
    assert rookery.train(Aim, num_envs=2, runs_dir=tmp_path, **{**SMALL, "steps": 64}).path.name.endswith("_vec2")


class Texts(Aim):
    """Returns what no network reads."""

    def _see(self) -> Any:
        return np.array(["far"] * self.num_envs, object)


class Incomplete(Aim):
    """Does not say which spaces it has."""

    def __init__(self) -> None:
        super().__init__()
        del self.single_action_space


@pytest.mark.parametrize(
    ("world", "options", "error", "words"),
    [
        (Aim(2), {"num_envs": 5}, OptionError, "the vector env has 2"),
        (Aim(2), {"backend": "process"}, OptionError, "steps its envs itself"),
        (Aim(2), {"wrappers": ["x.py:Y"]}, OptionError, "wrap the vector env"),
        (Aim(2), {"reward_scale": 2.0}, OptionError, "reward scales"),
        (Texts(2), {}, WorldError, "neither a tensor nor an array"),
        (Incomplete, {}, WorldError, "no single_action_space"),
        ("CartPole-v1", {"backend": "tensor"}, OptionError, "vector envs that return tensors"),
    ],
)
def test_what_cannot_be_trained_is_said(world: Any, options: dict, error: type, words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        rookery.train(world, runs_dir=tmp_path, **{**SMALL, **options})
    assert not list(tmp_path.iterdir())
