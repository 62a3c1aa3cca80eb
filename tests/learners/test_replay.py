"""Transitions of n steps: against hand-computed cases, and saved exactly."""

from __future__ import annotations

import numpy as np
import psutil
import pytest
import torch
from gymnasium import spaces

from rookery.errors import CheckpointError, MemoryShortage, OptionError
from rookery.learners.observations import leaves_of
from rookery.learners.replay_buffer import NStepBuffer, ReplayBuffer, check_capacity

CPU = torch.device("cpu")
LEAVES = leaves_of(spaces.Box(-1e9, 1e9, (1,), np.float32))
GAMMA = 0.5


class Tape:
    """Steps envs by hand: observations are numbers, and the action is the observation times ten."""

    def __init__(self, n_step: int, num_envs: int, capacity: int = 100) -> None:
        self.n_step_buffer = NStepBuffer(LEAVES, torch.zeros(()), n_step, GAMMA, num_envs, CPU)
        self.replay = ReplayBuffer(LEAVES, torch.zeros(()), capacity, CPU)

    def step(
        self,
        rows: slice,
        seen: list[float],
        rewards: list[float],
        after: list[float],
        terminated: list[int] | None = None,
        truncated: list[int] | None = None,
    ) -> None:
        """`after` is what followed each step, final observations included."""
        here = torch.tensor(seen, dtype=torch.float32).unsqueeze(1)
        self.n_step_buffer.store(rows, [here], here.squeeze(1) * 10)
        flags = (np.array(flag or [0] * len(seen), np.bool_) for flag in (terminated, truncated))
        complete = self.n_step_buffer.complete(rows, np.array(rewards, np.float64), *flags)
        self.replay.add(self.n_step_buffer, complete, [torch.tensor(after, dtype=torch.float32).unsqueeze(1)], None)

    def transitions(self) -> list[tuple[float, float, float, float, float]]:
        """(seen, action, rewards, discount, after), in order."""
        batch = self.replay.batch(torch.arange(self.replay.size))
        columns = batch.leaves[0][:, 0], batch.actions, batch.rewards, batch.discounts, batch.next_leaves[0][:, 0]
        return list(zip(*(column.tolist() for column in columns), strict=True))


ONE = slice(0, 1)


def test_three_steps_and_a_termination_by_hand() -> None:
    """Rewards 1, 2, 4, 8 with gamma 1/2: the last returns are shorter, and nothing counts after the end."""
    tape = Tape(3, 1)
    for k, reward in enumerate([1.0, 2.0, 4.0, 8.0]):
        tape.step(ONE, [k], [reward], [k + 1], terminated=[k == 3])
    assert tape.transitions() == [
        (0, 0, 1 + 1 + 1, 1 / 8, 3),
        (1, 10, 2 + 2 + 2, 0, 4),
        (2, 20, 4 + 4, 0, 4),
        (3, 30, 8, 0, 4),
    ]


def test_a_truncation_bootstraps_from_the_last_observation() -> None:
    """With as many factors of gamma as there were steps, and the next episode shares nothing with it."""
    tape = Tape(3, 1)
    tape.step(ONE, [0], [1.0], [1])
    tape.step(ONE, [1], [2.0], [99], truncated=[1])
    tape.step(ONE, [50], [1.0], [51])
    tape.step(ONE, [51], [1.0], [52])
    tape.step(ONE, [52], [1.0], [53])
    assert tape.transitions() == [(0, 0, 2, 1 / 4, 99), (1, 10, 2, 1 / 2, 99), (50, 500, 1.75, 1 / 8, 53)]


def test_one_step() -> None:
    """Is complete at once."""
    tape = Tape(1, 2)
    tape.step(slice(0, 2), [1, 2], [3.0, 4.0], [5, 6], terminated=[0, 1])
    assert tape.transitions() == [(1, 10, 3, 0.5, 5), (2, 20, 4, 0, 6)]


def test_terminated_and_truncated_at_once_is_terminated() -> None:
    """Nothing follows."""
    tape = Tape(2, 1)
    tape.step(ONE, [0], [1.0], [1], terminated=[1], truncated=[1])
    assert tape.transitions() == [(0, 0, 1, 0, 1)]


def plain(n_step: int, rewards: np.ndarray, ends: np.ndarray) -> list[list[tuple[float, ...]]]:
    """What each env's transitions should be, computed the slow way. `ends`: 0 none, 1 terminated, 2 truncated."""
    found: list[list[tuple[float, ...]]] = []
    for env in range(rewards.shape[1]):
        mine: list[tuple[float, ...]] = []
        for t in range(len(rewards)):
            total, k = 0.0, 0
            while t + k < len(rewards):
                total += GAMMA**k * rewards[t + k, env]
                k += 1
                if ends[t + k - 1, env] or k == n_step:
                    discount = 0.0 if ends[t + k - 1, env] == 1 else GAMMA**k
                    mine.append((t, np.float32(total), np.float32(discount), t + k))
                    break
        found.append(mine)
    return found


@pytest.mark.parametrize("n_step", [1, 2, 5])
@pytest.mark.parametrize("groups", [1, 2])
def test_random_episodes_in_groups(n_step: int, groups: int) -> None:
    """However envs are grouped, each one's transitions are what a plain computation says."""
    rng = np.random.default_rng(n_step)
    steps, envs = 60, 6
    rewards, ends = rng.integers(-9, 9, (steps, envs)), rng.choice([0, 0, 0, 0, 1, 2], size=(steps, envs))
    tape = Tape(n_step, envs, capacity=1000)
    width = envs // groups
    for t in range(steps):
        for rows in (slice(g * width, (g + 1) * width) for g in range(groups)):
            names = 1000.0 * np.arange(rows.start, rows.stop)
            tape.step(
                rows, list(names + t), list(rewards[t, rows]), list(names + t + 1),
                terminated=list(ends[t, rows] == 1), truncated=list(ends[t, rows] == 2),
            )  # fmt: skip
    wanted = plain(n_step, rewards, ends)
    for env in range(envs):
        mine = [row for row in tape.transitions() if row[0] // 1000 == env]
        assert [(s % 1000, r, d, after % 1000) for s, _, r, d, after in mine] == wanted[env]


def test_the_oldest_transitions_give_way() -> None:
    """Around the end of the buffer, also in the middle of one record."""
    tape = Tape(1, 3, capacity=4)
    for t in range(3):
        tape.step(slice(0, 3), [t, t + 10, t + 20], [0.0] * 3, [0.0] * 3)
    assert tape.replay.size == 4
    assert sorted(row[0] for row in tape.transitions()) == [2, 12, 21, 22]


def test_a_broken_off_episode_leaves_nothing() -> None:
    """What was pending of it is dropped, and the next one begins afresh."""
    tape = Tape(3, 1)
    tape.step(ONE, [0], [1.0], [1])
    tape.n_step_buffer.clear(ONE)
    for k in (5, 6, 7):
        tape.step(ONE, [k], [1.0], [k + 1])
    assert [row[0] for row in tape.transitions()] == [5]


def test_envs_that_stay_keep_their_queues() -> None:
    """When their number changes."""
    tape = Tape(2, 2)
    tape.step(slice(0, 2), [1, 2], [1.0, 1.0], [3, 4])
    tape.n_step_buffer.resize(3)
    tape.step(slice(0, 3), [3, 4, 5], [1.0, 1.0, 1.0], [6, 7, 8])
    assert [row[0] for row in tape.transitions()] == [1, 2]


def test_saved_and_loaded_it_draws_the_same() -> None:
    """Only the filled part is saved, as views of what is there, and the same generator finds the same transitions."""
    tape, other = Tape(2, 3, capacity=50), Tape(2, 3, capacity=50)
    for t in range(7):
        tape.step(slice(0, 3), [t, t, t], [1.0, 2.0, 3.0], [t + 1] * 3, terminated=[t == 3, 0, 0])
    state = tape.replay.state()
    assert len(state["arrays"]["outcomes"]) == tape.replay.size < 50
    assert np.shares_memory(state["arrays"]["outcomes"], tape.replay._tensors["outcomes"].numpy())
    for array in state["arrays"].values():
        array.flags.writeable = False
    other.replay.load(state)
    other.n_step_buffer.load(tape.n_step_buffer.state())
    for each in (tape, other):
        each.step(slice(0, 3), [9, 9, 9], [1.0, 1.0, 1.0], [10] * 3)
    assert tape.transitions() == other.transitions()
    places = [each.replay.sample_indices(20, torch.Generator().manual_seed(1)) for each in (tape, other)]
    assert torch.equal(*places)


def test_masks_are_kept_from_the_first_on() -> None:
    """Earlier transitions allow everything."""
    tape = Tape(1, 1)
    tape.step(ONE, [0], [0.0], [1])
    tape.replay.store_masks(3)
    here = torch.zeros(1, 1)
    tape.n_step_buffer.store(ONE, [here], here[0])
    complete = tape.n_step_buffer.complete(ONE, np.zeros(1), np.zeros(1, np.bool_), np.zeros(1, np.bool_))
    tape.replay.add(tape.n_step_buffer, complete, [here], torch.tensor([[True, False, True]]))
    masks = tape.replay.batch(torch.arange(2)).next_masks
    assert masks is not None
    assert masks.tolist() == [[True, True, True], [True, False, True]]


def test_pixels_stay_bytes() -> None:
    """One byte each."""
    leaves = leaves_of(spaces.Box(0, 255, (16, 16, 3), np.uint8))
    replay = ReplayBuffer(leaves, torch.zeros(()), 10, CPU)
    assert replay._tensors["leaf0"].dtype == replay._tensors["next0"].dtype == torch.uint8


def test_too_large_a_buffer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is allocated, naming the option, what it takes and what there is."""
    free = psutil.virtual_memory()._replace(available=2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with pytest.raises(MemoryShortage, match=r"buffer_size=100,000,000 .* take 1\.9 GiB, and 1\.0 GiB are free"):
        ReplayBuffer(LEAVES, torch.zeros(()), 100_000_000, CPU)


def test_a_buffer_smaller_than_one_step_is_refused() -> None:
    """All envs may end at once."""
    with pytest.raises(OptionError, match="at least 24 is needed"):
        check_capacity(10, 8, 3)


def test_another_size_cannot_go_on() -> None:
    """A saved buffer fits only one of its own size."""
    with pytest.raises(CheckpointError, match="buffer_size=100 and cannot continue with buffer_size=7"):
        Tape(1, 1, capacity=7).replay.load(Tape(1, 1).replay.state())
