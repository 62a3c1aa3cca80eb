"""Envs that return arrays, with a learner on another device: here the CPU, as if it were one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import rookery
from rookery.learners.frame_store import FrameStore
from rookery.learners.registry import make_learner, option_classes
from rookery.training.run import collector, host_copies, linked_part
from rookery.training.run.device_link import CapturedRounds, DeviceLink
from rookery.training.run.host_copies import PackedCopies, SeparateCopies
from training.runs import differences, last_state, small


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[DeviceLink]:
    """Every collector has a link, as on a GPU; returns those that were made."""
    links: list[DeviceLink] = []

    def make(envs: Any, learner: Any) -> DeviceLink:
        links.append(DeviceLink(learner, getattr(envs, "engine", envs)))
        return links[-1]

    monkeypatch.setattr(collector, "link_for", make)
    return links


class Mixed(gym.Env):
    """A Dict with an image that is not packed, numbers in double precision and a choice; Dict actions; masks of none.
    Episodes end by their time limit, or by the env."""

    observation_space = gym.spaces.Dict(
        camera=gym.spaces.Box(0, 255, (3, 16, 16), np.uint8),
        inner=gym.spaces.Tuple((gym.spaces.Box(-9, 9, (2,), np.float64), gym.spaces.Discrete(3))),
    )
    action_space = gym.spaces.Dict(move=gym.spaces.Discrete(3), push=gym.spaces.Box(-1, 1, (2,), np.float32))

    def _see(self) -> dict[str, Any]:
        image = self.np_random.integers(0, 255, (3, 16, 16), np.uint8)
        return {"camera": image, "inner": (self.np_random.normal(size=2).clip(-9, 9), self.time % 3)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        reward = float(action["push"].sum()) + int(action["move"])
        return self._see(), reward, bool(self.np_random.random() < 0.1), self.time >= 5, {}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("backend", "groups"),
    [
        ("process", 2),
        ("serial", 1),
        ("serial", 2),
        pytest.param("process", 1, marks=pytest.mark.slow),
    ],
)
def test_ppo_learns_the_same_by_copies(
    backend: str, groups: int, linked: list[DeviceLink], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The weights are those of a run without a link, to rounding: final observations are evaluated in other batches."""
    options = {"backend": backend, "groups": groups, "steps": 512, "ppo": {"accelerate": False}}
    if backend == "process":
        options["workers"] = 2
    one = rookery.train(small("ppo", tmp_path / "a", **options))
    assert len(linked) == 1
    monkeypatch.undo()
    other = rookery.train(small("ppo", tmp_path / "b", **options))
    for name, mine in last_state(one.path)["policy"].items():
        np.testing.assert_allclose(mine, last_state(other.path)["policy"][name], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_every_kind_of_observation_and_action(
    linked: list[DeviceLink], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Large images are copied from where workers write them, all else is packed; final observations arrive too."""
    monkeypatch.setattr(linked_part, "LARGE", 1024)
    settings: dict[str, Any] = {
        "learner": "ppo", "num_envs": 4, "backend": "process", "workers": 2, "steps": 64, "seed": 3,
        "ppo": {"rollout_length": 8, "hidden": [8], "accelerate": False, "threads": 1}, "verbose": False,
        "evaluation": {"every": 10**6, "episodes": 1}, "image_size": "full", "groups": 1,
    }  # fmt: skip
    one = rookery.train(Mixed, runs_dir=tmp_path / "a", **settings)
    assert any(part.has_large for part in linked[0]._parts.values())
    monkeypatch.undo()
    other = rookery.train(Mixed, runs_dir=tmp_path / "b", **settings)
    for name, mine in last_state(one.path)["policy"].items():
        np.testing.assert_allclose(mine, last_state(other.path)["policy"][name], rtol=0, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["ppo", "sac", pytest.param("dqn", marks=pytest.mark.slow)])
def test_resume_is_exact(learner: str, linked: list[DeviceLink], tmp_path: Path) -> None:
    """Off-policy learners act and record in rounds, as if these were captured."""
    options: dict[str, Any] = {"backend": "serial", "groups": 1, "checkpoints": {"every": 64}}
    if learner == "ppo":
        options["ppo"] = {"accelerate": False}
    whole = rookery.train(small(learner, tmp_path / "a", steps=256, **options))
    half = rookery.train(small(learner, tmp_path / "b", steps=128, **options))
    half = rookery.resume(half.path, steps=256)
    assert (linked[0]._rounds is None) == (learner == "ppo")
    assert not differences(last_state(whole.path), last_state(half.path))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"n_step": 3}])
def test_recording_after_sending_changes_no_number(
    options: dict[str, Any], linked: list[DeviceLink], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also not where a run stops to save a checkpoint, for which everything is recorded."""
    settings: dict[str, Any] = {"backend": "serial", "groups": 1, "steps": 256, "sac": options}
    one = rookery.train(small("sac", tmp_path / "a", checkpoints={"every": 256}, **settings))
    flush = CapturedRounds.record
    waits = []

    def record_at_once(rounds: CapturedRounds, part: Any) -> None:
        flush(rounds, part)
        waits.append(rounds._pending is not None)
        rounds.flush()

    monkeypatch.setattr(CapturedRounds, "record", record_at_once)
    other = rookery.train(small("sac", tmp_path / "b", checkpoints={"every": 24}, **settings))
    assert not differences(last_state(one.path), last_state(other.path)) and sum(waits) > 50


class Blinking(gym.Env):
    """Random frames, and episodes of one or two steps: their first frames take room in a store of frames."""

    observation_space = gym.spaces.Box(0, 255, (8, 8), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.integers(0, 255, (8, 8), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ended = bool(self.np_random.random() < 0.7)
        return self.np_random.integers(0, 255, (8, 8), np.uint8), float(action), ended, False, {}


def blinking() -> gym.Env:
    return gym.wrappers.FrameStackObservation(Blinking(), 4)


@pytest.mark.slow
def test_frames_that_are_stored_once_change_no_number(
    linked: list[DeviceLink], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where their store becomes larger."""
    settings: dict[str, Any] = {
        "learner": "dqn", "num_envs": 2, "backend": "serial", "groups": 1, "steps": 1000, "seed": 3,
        "dqn": {"buffer_size": 300, "start_steps": 20, "batch_size": 8, "hidden": [8], "images": "flat", "threads": 1,
                "updates_per_step": 0.1}, "verbose": False, "evaluation": {"every": 10**6, "episodes": 1},
        "checkpoints": {"replay": False},
    }  # fmt: skip
    moved, move_to = [], FrameStore._move_to
    monkeypatch.setattr(FrameStore, "_move_to", lambda self, *args: moved.append(move_to(self, *args)))
    one = rookery.train(blinking, runs_dir=tmp_path / "a", **settings)
    assert linked and moved
    monkeypatch.setattr("rookery.learners.observations.Leaf.stored_by_frame", False)
    other = rookery.train(blinking, runs_dir=tmp_path / "b", **settings)
    for name, mine in last_state(one.path)["policy"].items():
        np.testing.assert_array_equal(mine, last_state(other.path)["policy"][name])


def test_only_learners_on_other_devices_are_linked() -> None:
    envs = rookery.make_vec("Pendulum-v1", 2, "serial", groups=2)
    spaces = envs.single_observation_space, envs.single_action_space
    for name in ("ppo", "sac", "td3"):
        learner = make_learner(name, *spaces, option_classes()[name](hidden=[8]), 2, 1, "cpu")
        assert collector.link_for(envs, learner) is None
        learner.device = torch.device("meta")
        is_linked = (collector.link_for(envs, learner) is not None) == (name == "ppo")
        assert is_linked  # an off-policy learner records all envs at once, so there is no link with two groups
    envs.close()


@pytest.mark.slow
def test_masks_reach_the_learner(linked: list[DeviceLink], tmp_path: Path) -> None:
    result = rookery.train(
        Masked, learner="ppo", num_envs=2, backend="serial", steps=64, runs_dir=tmp_path, verbose=False,
        ppo={"rollout_length": 16, "hidden": [8], "accelerate": False, "threads": 1},
        evaluation={"every": 10**6, "episodes": 1},
    )  # fmt: skip
    assert result.total_steps == 64


class Masked(gym.Env):
    """Allows one action at a time, and fails on others."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(3)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.arange(3) == self.time % 3}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        return np.zeros(2, np.float32), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action == self.time % 3
        self.time += 1
        return np.zeros(2, np.float32), 1.0, False, self.time == 7, self._info()


@pytest.mark.parametrize("blocks", [("cpu",), ()])
def test_packed_copies_keep_shapes_and_dtypes(blocks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block, and apart as on Apple's GPUs."""
    monkeypatch.setattr(host_copies, "BLOCKS", blocks)
    plan = {"a": ((3,), torch.bool), "b": ((3, 2), torch.float32), "c": ((), torch.int64), "d": ((0, 2), torch.uint8)}
    packed = PackedCopies(plan, torch.device("cpu"))
    assert isinstance(packed, SeparateCopies) != bool(blocks)
    packed.arrays["a"][...], packed.arrays["b"][...], packed.arrays["c"][...] = [1, 0, 1], 2.5, -7
    assert not packed.tensors["b"].any()
    packed.to_device()
    assert packed.tensors["a"].tolist() == [True, False, True] and int(packed.tensors["c"]) == -7
    assert packed.tensors["b"].dtype == torch.float32 and bool((packed.tensors["b"] == 2.5).all())
    assert packed.tensors["d"].shape == (0, 2)
    packed.tensors["b"].zero_()
    packed.to_host()
    assert not packed.arrays["b"].any()
