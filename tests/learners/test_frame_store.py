"""Stacked observations whose frames are stored once: whatever comes, the same batches as those of a plain buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.device.tensor_worlds import as_tensors
from learners.offpolicy_tools import assert_same
from rookery.errors import CheckpointError
from rookery.learners.execution.choose import use_tensor_envs
from rookery.learners.execution.replay_device import ReplayDevice
from rookery.learners.frame_store import DeviceFrameStore, FrameStore
from rookery.learners.learner import Learner, StepBatch
from rookery.learners.observations import leaves_of
from rookery.learners.plain_spaces import StackedBox
from rookery.learners.registry import DQNOptions, make_learner

CPU = torch.device("cpu")
DEPTH, SHAPE = 4, (8, 8)
PLAIN = spaces.Box(0, 255, (DEPTH, *SHAPE), np.uint8)
STACKED = StackedBox.of(PLAIN)
(LEAF,) = leaves_of(STACKED)
OPTIONS = {"hidden": [8], "start_steps": 30, "batch_size": 8, "updates_per_step": 0.25, "images": "flat"}


class Screens:
    """Envs that show stacks of random frames. Episodes end, are truncated or jump without any sign; they begin with one
    frame four times, or after frames of zeros; and at times nothing moves."""

    def __init__(self, num_envs: int, seed: int, length: float = 7.0) -> None:
        self.random, self.num_envs, self.length = np.random.default_rng(seed), num_envs, length
        self.seen = np.zeros((num_envs, *PLAIN.shape), np.uint8)
        for k in range(num_envs):
            self._begin(k)

    def observe(self) -> np.ndarray:
        return self.seen.copy()

    def _frame(self) -> np.ndarray:
        return self.random.integers(0, 255, SHAPE, np.uint8)

    def _begin(self, env: int) -> None:
        self.seen[env] = 0
        self.seen[env, -1 if self.random.random() < 0.3 else 0 :] = self._frame()

    def step(self, actions: np.ndarray) -> StepBatch:
        drawn = self.random.random((3, self.num_envs))
        ended, jumps = drawn[0] < 1 / self.length, drawn[1] < 0.05
        terminated = ended & (drawn[2] < 0.5)
        for k in range(self.num_envs):
            if jumps[k]:
                self._begin(k)
            else:
                self.seen[k, :-1] = self.seen[k, 1:]
                if self.random.random() < 0.8:
                    self.seen[k, -1] = self._frame()
        rows = np.flatnonzero(ended)
        finals = (rows, [self.seen[k].copy() for k in rows]) if len(rows) else None
        for k in rows:
            self._begin(k)
        return StepBatch(self.observe(), actions.astype(np.float64), terminated, ended & ~terminated, finals)


def rows_of(step: StepBatch, rows: slice) -> StepBatch:
    finals = None
    if step.finals is not None:
        chosen = [(k - rows.start, last) for k, last in zip(*step.finals, strict=True) if rows.start <= k < rows.stop]
        finals = (np.array([k for k, _ in chosen]), [last for _, last in chosen]) if chosen else None
    return StepBatch(*(part[rows] for part in step[:4]), finals)


def learner_on(space: spaces.Space, kind: str, num_envs: int = 4, **options: Any) -> Learner:
    settings = DQNOptions(**{**OPTIONS, "buffer_size": 50, **options})
    learner = make_learner("dqn", space, spaces.Discrete(3), settings, num_envs, 5, "cpu")
    if kind == "tensors":
        use_tensor_envs(learner)
    elif kind == "device":
        learner.execution = ReplayDevice(learner)
    return learner


def play(learner: Learner, envs: Screens, rounds: int, kind: str) -> None:
    """As training does it, in two groups if the kind says so."""
    groups = 2 if kind == "groups" else 1
    width = envs.num_envs // groups
    parts = [slice(g * width, (g + 1) * width) for g in range(groups)]
    seen = envs.observe()
    for _ in range(rounds):
        if kind == "tensors":
            learner.execution.before_round()
            actions = np.asarray(learner.explore(torch.from_numpy(seen), parts[0]))
        else:
            actions = np.concatenate([np.asarray(learner.explore(seen[rows], rows)) for rows in parts])
        while learner.ready():
            learner.update()
        step = envs.step(actions)
        for rows in parts:
            learner.record(rows, as_tensors(envs, step) if kind == "tensors" else rows_of(step, rows))
        seen = step.observations


def transitions(learner: Learner) -> dict[str, np.ndarray]:
    """All that is stored, as batches give it."""
    batch = learner.replay.batch(torch.arange(learner.replay.size))
    parts = {"seen": batch.leaves[0], "after": batch.next_leaves[0], "actions": batch.actions}
    return {name: part.numpy() for name, part in {**parts, "rewards": batch.rewards, "ends": batch.discounts}.items()}


KINDS = "host", "groups", "device", "tensors"
TWO = "host", "tensors"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_step", "prioritised"), [(1, False), (3, True)])
def test_the_same_transitions_and_weights_as_a_plain_buffer(kind: str, n_step: int, prioritised: bool) -> None:
    """Around the end of the ring of transitions, and of that of frames."""
    options = {"n_step": n_step, "prioritised": prioritised}
    plain, frames = (learner_on(space, kind, **options) for space in (PLAIN, STACKED))
    for learner in (plain, frames):
        play(learner, Screens(4, 1), 160, kind)
    assert not plain.replay.frames and int(frames.replay.frames[0].count) > 1.2 * frames.replay.frames[0]._places
    assert frames.replay.size == 50 and frames.updates > 100
    assert_same(transitions(frames), transitions(plain))
    assert_same(frames.state()["policy"], plain.state()["policy"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TWO)
def test_a_saved_learner_continues_exactly(kind: str) -> None:
    """In the middle of episodes, with and without its transitions."""
    learner, envs, saved = learner_on(STACKED, kind), Screens(4, 2), []
    play(learner, envs, 60, kind)
    for replay in (True, False):
        other = learner_on(STACKED, kind)
        other.load(copied(learner.state(replay=replay)))
        saved.append(other)
    plain = learner_on(PLAIN, kind)
    play(plain, Screens(4, 2), 60, kind)
    plain_again = learner_on(PLAIN, kind)
    plain_again.load(plain.state(replay=False))
    after = envs.random.bit_generator.state, envs.observe()
    for each in (learner, *saved, plain_again):
        envs.random.bit_generator.state, envs.seen = after[0], after[1].copy()
        play(each, envs, 20, kind)
    assert_same(learner.state(), saved[0].state())
    assert_same(transitions(saved[1]), transitions(plain_again))
    assert len(learner.state(replay=False)["frames"]["0"]["older"]) < 50


def copied(tree: Any) -> Any:
    """As a checkpoint has it: arrays of its own, which nobody may write to."""
    if isinstance(tree, dict):
        return {key: copied(part) for key, part in tree.items()}
    if isinstance(tree, np.ndarray):
        tree = tree.copy()
        tree.flags.writeable = False
    return tree


@pytest.mark.parametrize("kind", TWO)
def test_a_run_of_an_earlier_version_continues(kind: str) -> None:
    """Its transitions are whole stacks, and stay that."""
    old = learner_on(PLAIN, kind)
    play(old, Screens(4, 3), 40, kind)
    new = learner_on(STACKED, kind)
    new.load(old.state())
    for learner in (old, new):
        play(learner, Screens(4, 4), 20, kind)
    assert not new.replay.frames
    assert_same(old.state(), new.state())
    with pytest.raises(CheckpointError, match="stored frames"):
        learner_on(PLAIN, kind).load(learner_on(STACKED, kind).state())


def test_with_a_dataset_whole_stacks_are_stored() -> None:
    """Its steps come between those of the envs."""
    assert learner_on(STACKED, "host").replay.frames
    assert not learner_on(STACKED, "host", dataset="steps.npz").replay.frames


@pytest.mark.slow
@pytest.mark.parametrize("kind", TWO)
def test_short_episodes_take_more_room(kind: str) -> None:
    """Each step brings two frames then, and the ring becomes larger: nothing is lost."""
    options = {"buffer_size": 500, "start_steps": 9000}
    plain, frames = (learner_on(space, kind, 2, **options) for space in (PLAIN, STACKED))
    before = frames.replay.frames[0]._places
    for learner in (plain, frames):
        play(learner, Screens(2, 5, length=1.0), 480, kind)
    assert frames.replay.frames[0]._places > before
    assert_same(transitions(frames), transitions(plain))
    other = learner_on(STACKED, kind, 2, **options)
    other.load(frames.state())
    assert_same(transitions(other), transitions(plain))


def test_envs_that_come_and_go() -> None:
    """New ones have no frames yet."""
    plain, frames = (learner_on(space, "host") for space in (PLAIN, STACKED))
    for learner in (plain, frames):
        play(learner, Screens(4, 6), 20, "host")
        learner.resize(6)
        play(learner, Screens(6, 7), 20, "host")
        learner.reset_envs(slice(1, 3))
        learner.resize(3)
        learner.clear_replay()
        play(learner, Screens(3, 8), 30, "host")
    assert_same(transitions(frames), transitions(plain))


def test_on_a_device_frames_have_the_same_numbers() -> None:
    """Operations on whole batches do what the compiled loop does."""
    stores = [kind(LEAF, 40, 5, 1, CPU) for kind in (FrameStore, DeviceFrameStore)]
    envs = Screens(5, 9, 3.0)
    for _ in range(90):
        stacks = torch.from_numpy(envs.step(np.zeros(5)).observations)
        one, other = (store.put(slice(0, 5), stacks) for store in stores)
        assert torch.equal(one, other)
        assert all(torch.equal(part, stacks) for store in stores for part in store.get(one, other))
    assert int(stores[0].count) == int(stores[1].count) > stores[0]._places


def test_a_frame_for_each_step() -> None:
    """An episode of some steps takes one frame more than it has steps."""
    store, stack = FrameStore(LEAF, 100, 1, 1, CPU), torch.zeros(1, *PLAIN.shape, dtype=torch.uint8)
    stack[:] = torch.randint(1, 255, SHAPE, dtype=torch.uint8)
    for _ in range(30):
        store.put(slice(0, 1), stack)
        stack = torch.cat([stack[:, 1:], torch.randint(1, 255, (1, 1, *SHAPE), dtype=torch.uint8)], 1)
        store.put(slice(0, 1), stack)
    assert int(store.count) == 31


def test_only_where_it_saves_memory() -> None:
    """Numbers of frames take memory too."""

    def leaf(*shape: int) -> Any:
        return leaves_of(StackedBox.of(spaces.Box(0, 255, shape, np.uint8)))[0]

    assert leaf(4, 84, 84).stored_by_frame and not leaves_of(PLAIN)[0].stored_by_frame
    assert not leaf(4, 4).stored_by_frame and not leaf(1, 84, 84).stacked
