"""Hindsight experience replay (Andrychowicz et al., 2017): for worlds with goals, each transition is stored again with
goals that were reached later in its episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.replay_buffer import NStepBuffer, Transitions

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"  # keys of observations, as in Gymnasium-Robotics
FIRST_LENGTH = 64  # steps of an episode that there is room for at first
# (achieved goals, desired goals, {}) -> rewards, or whether episodes terminate, of many steps at once
OfGoals = Callable[[np.ndarray, np.ndarray, dict[str, Any]], Any]


class HindsightBuffer(NStepBuffer):
    """Keeps the present episodes of all envs too. At their ends they come `copies` times, each transition with the goal
    that was reached after one of its later steps, or after itself; all are equally likely."""

    compute_reward: OfGoals | None = None  # the world's, which training sets
    compute_terminated: OfGoals | None = None  # the world's if it has one; without it, ends stay as they were

    def __init__(self, learner: Any) -> None:
        options, leaves, names = learner.options, learner.leaves, [leaf.path for leaf in learner.leaves]
        missing = [name for name in (ACHIEVED, DESIRED) if (name,) not in names]
        if missing:
            raise OptionError(
                f"`hindsight` needs Dict observations with {ACHIEVED!r} and {DESIRED!r}; {missing[0]!r} is missing"
            )
        num_envs, self._action, self._plan = learner.num_envs, learner.example_action, leaves
        super().__init__(leaves, self._action, options.n_step, options.gamma, num_envs, learner.device)
        self._achieved, self._desired = names.index((ACHIEVED,)), names.index((DESIRED,))
        self._copies, self._generator = options.hindsight, learner.generator
        self._lengths = np.zeros(num_envs, np.int64)
        self._episodes = self._room(num_envs, FIRST_LENGTH)

    def _room(self, num_envs: int, length: int) -> list[Tensor]:
        shapes = [(tuple(part.shape), part.dtype) for part in (*self._plan, self._action)]
        return [torch.zeros(num_envs, length, *shape, dtype=dtype, device=self.device) for shape, dtype in shapes]

    def store(self, rows: slice, leaves: Sequence[Tensor], actions: Tensor) -> None:
        super().store(rows, leaves, actions)
        lengths, room = self._lengths[rows], self._episodes[0].shape[1]
        if lengths.max() == room:
            self._move_to(self._room(len(self._lengths), 2 * room))
        envs = torch.arange(rows.start, rows.start + len(lengths), device=self.device)
        steps = torch.from_numpy(lengths).to(self.device)
        for kept, values in zip(self._episodes, (*leaves, actions), strict=True):
            kept[envs, steps] = values
        self._lengths[rows] += 1

    def _move_to(self, episodes: list[Tensor]) -> None:
        for new, old in zip(episodes, self._episodes, strict=True):
            envs, steps = (min(pair) for pair in zip(new.shape[:2], old.shape[:2], strict=True))
            new[:envs, :steps] = old[:envs, :steps]
        self._episodes = episodes

    def relabelled(self, row: int, last: Sequence[Tensor], terminated: bool) -> list[Transitions]:
        """The episode of this env is over, and this was its last observation."""
        length, self._lengths[row] = int(self._lengths[row]), 0
        if length == 0:
            return []
        *leaves, actions = (kept[row, :length] for kept in self._episodes)
        following = [torch.cat([leaf[1:], end.unsqueeze(0)]) for leaf, end in zip(leaves, last, strict=True)]
        return self.copies(leaves, actions, following, terminated)

    def copies(
        self, leaves: list[Tensor], actions: Tensor, following: list[Tensor], terminated: bool
    ) -> list[Transitions]:
        """Of a complete episode: what was seen before and after each step."""
        return [self._copy(leaves, actions, following, terminated) for _ in range(self._copies)]

    def _copy(self, leaves: list[Tensor], actions: Tensor, following: list[Tensor], terminated: bool) -> Transitions:
        device, length = actions.device, len(actions)
        drawn = torch.rand(length, generator=self._generator, device=device)
        steps = torch.arange(length, device=device)
        goals = following[self._achieved][(steps + drawn * (length - steps)).long().clamp(max=length - 1)]
        ends, outcomes = self._outcomes(following[self._achieved].cpu().numpy(), goals.cpu().numpy(), terminated)
        later = [leaf[torch.from_numpy(ends).to(device)] for leaf in following]
        seen = list(leaves)
        seen[self._desired] = later[self._desired] = goals
        places = np.arange(length)
        return Transitions(seen, actions, (places, places, outcomes), later)

    def _outcomes(self, reached: np.ndarray, goals: np.ndarray, terminated: bool) -> tuple[np.ndarray, np.ndarray]:
        """The last step of each transition of up to `n_step` steps, and its reward and discount, [steps, 2]."""
        if self.compute_reward is None:
            raise OptionError("`hindsight` needs the world's `compute_reward`: set `learner.hindsight.compute_reward`")
        gamma, length = self.gamma, len(goals)
        ends, outcomes = np.arange(length), np.zeros((length, 2), np.float32)
        discounts, open_rows = np.ones(length), np.arange(length)
        for k in range(self.n_step):
            open_rows = open_rows[open_rows + k < length]
            steps = open_rows + k
            ends[open_rows] = steps
            pair = reached[steps], goals[open_rows]
            outcomes[open_rows, 0] += discounts[open_rows] * np.asarray(self.compute_reward(*pair, {}), np.float64)
            over = (steps == length - 1) & terminated
            if self.compute_terminated is not None:
                over = np.asarray(self.compute_terminated(*pair, {}), np.bool_) & np.ones(len(steps), np.bool_)
            discounts[open_rows] *= np.where(over, 0.0, gamma)
            open_rows = open_rows[~over]
        outcomes[:, 1] = discounts
        return ends, outcomes

    # --- changes during a run, save and load ------------------------------------------------------------------------

    def clear(self, rows: slice) -> None:
        super().clear(rows)
        self._lengths[rows] = 0

    def resize(self, num_envs: int) -> None:
        super().resize(num_envs)
        more = np.zeros(max(0, num_envs - len(self._lengths)), np.int64)
        self._lengths = np.concatenate([self._lengths[:num_envs], more])
        self._move_to(self._room(num_envs, self._episodes[0].shape[1]))

    def state(self) -> dict[str, np.ndarray]:
        longest = max(1, int(self._lengths.max(initial=0)))
        episodes = {f"episode{k}": kept[:, :longest].cpu().numpy().copy() for k, kept in enumerate(self._episodes)}
        return super().state() | episodes | {"lengths": self._lengths.copy()}

    def load(self, state: dict[str, np.ndarray]) -> None:
        super().load(state)
        if "lengths" not in state:  # of a run without `hindsight`
            self._lengths[:] = 0
            return
        self._lengths = np.array(state["lengths"])
        saved = [torch.from_numpy(np.array(state[f"episode{k}"])) for k in range(len(self._episodes))]
        self._episodes = self._room(len(self._lengths), max(FIRST_LENGTH, saved[0].shape[1]))
        for kept, part in zip(self._episodes, saved, strict=True):
            kept[:, : part.shape[1]] = part.to(self.device)
