"""Steps that were recorded elsewhere, in the replay buffer of a learner as if it had made them itself, in one env."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import DataError
from rookery.learners.action_spaces import action_tree
from rookery.learners.learner import Learner
from rookery.learners.observations import Leaf, part_of, split
from rookery.learners.replay_buffer import Complete, Transitions

Check = Callable[[np.ndarray], str]  # what values should be, if they are something else; else ""


class Steps(NamedTuple):
    """Steps in the order in which they were made, arrays with a row for each. Observations and actions have the
    structure of their space. The last one ends an episode."""

    observations: Any
    actions: Any
    rewards: np.ndarray
    next_observations: Any  # after the step: at the end of an episode its last one
    terminations: np.ndarray
    truncations: np.ndarray

    @property
    def ended(self) -> np.ndarray:
        """Where an episode ended."""
        return self.terminations | self.truncations


def store_steps(learner: Learner, steps: Steps) -> None:
    """Put them in the replay buffer, and update the normalisers. They count neither for schedules nor for updates that
    are due.

    Raises:
        DataError: They have other spaces than the learner, or values that no env returns.
    """
    check_steps(learner, steps)
    execution, device = learner.execution, learner.device
    seen, following = (split(learner.leaves, part, device) for part in (steps.observations, steps.next_observations))
    actions = own_actions(learner, steps.actions)
    learner.policy.encoder.update_normalisers(seen)
    if learner.scale is not None:
        learner.scale.update_recorded(steps.rewards, steps.ended)
    complete = transitions(steps, learner.options.n_step, learner.options.gamma)
    execution.add(Transitions(seen, actions, complete, following))
    if execution.hindsight is not None:
        for episode in _episodes(steps.ended):
            parts = [leaf[episode] for leaf in seen], actions[episode], [leaf[episode] for leaf in following]
            for copies in execution.hindsight.copies(*parts, bool(steps.terminations[episode][-1])):
                execution.add(copies)


def transitions(steps: Steps, n_step: int, gamma: float) -> Complete:
    """One begins with each step: it ends `n_step` steps later, or with its episode. The numbers are those of
    `NStepBuffer`."""
    count = len(steps.rewards)
    last_steps = np.flatnonzero(steps.ended)
    ends = last_steps[np.searchsorted(last_steps, np.arange(count))]  # of the episode of each step
    lasts = np.minimum(np.arange(count) + n_step - 1, ends)
    totals, powers, lengths = np.zeros(count), np.ones(count), lasts - np.arange(count) + 1
    rewards = np.asarray(steps.rewards, np.float64)
    for k in range(n_step):
        rows = np.flatnonzero(lengths > k)
        totals[rows] += powers[rows] * rewards[rows + k]
        powers[rows] *= gamma
    outcomes = np.stack([totals, np.where(steps.terminations[lasts], 0.0, powers)], 1)
    return np.arange(count), lasts, outcomes.astype(np.float32)


def _episodes(ended: np.ndarray) -> list[slice]:
    lasts = np.flatnonzero(ended)
    return [slice(first, last + 1) for first, last in zip([0, *(lasts[:-1] + 1)], lasts, strict=True)]


def own_actions(learner: Learner, actions: Any) -> Tensor:
    """The actions of an env as the learner stores them."""
    space = learner.agent.action_space
    if isinstance(space, spaces.Discrete):
        own = np.asarray(actions) - space.start
    else:
        tree = action_tree(space)
        own = learner.policy.bounds.from_env(np.asarray(actions) if tree is None else tree.flatten(actions))
    return torch.from_numpy(own).to(learner.device, learner.example_action.dtype)


# --- checks -----------------------------------------------------------------------------------------------------------


def check_steps(learner: Learner, steps: Steps) -> None:
    """Refuse steps of other spaces, and values that no env returns."""
    rows, found = len(steps.rewards), list[str]()
    for name in ("observations", "next_observations"):
        found += [_unfit(name, leaf, getattr(steps, name), leaf.shape, rows, _reads(leaf)) for leaf in learner.leaves]
    space = learner.agent.action_space
    tree = action_tree(space)
    for part in (_Plain((), space),) if tree is None else tree.parts:
        found.append(_unfit("actions", part, steps.actions, tuple(part.space.shape or ()), rows, _takes(part.space)))
    if wrong := [text for text in found if text]:
        raise DataError("; ".join(wrong))
    if not np.isfinite(steps.rewards).all():
        raise DataError("rewards should be finite numbers")


class _Plain(NamedTuple):
    """A space that is one array, as a part of itself."""

    path: tuple[str | int, ...]
    space: spaces.Space


def _unfit(name: str, part: Any, values: Any, shape: tuple[int, ...], rows: int, check: Check) -> str:
    """What is wrong with the values of a part; "" if nothing is."""
    where = ".".join([name, *map(str, part.path)])
    try:
        found = part_of(values, part)
    except (KeyError, IndexError, TypeError):
        return f"{where} should be there, and are not"
    if isinstance(found, (dict, tuple)):
        parts = ", ".join(map(str, found if isinstance(found, dict) else range(len(found))))
        return f"{where} should be one array with the shape {(rows, *shape)}, got the parts {parts}"
    array = np.asarray(found)
    if array.shape != (rows, *shape):
        return f"{where} should have the shape {(rows, *shape)}, got {array.shape}"
    wish = check(array)
    return f"{where} should be {wish}, got {_range(array)}" if wish else ""


def _reads(leaf: Leaf) -> Check:
    """What a leaf of the observations should be, for values that are something else."""

    def check(values: np.ndarray) -> str:
        if leaf.kind == "choice":
            low, high = np.reshape(leaf.starts, leaf.shape), np.reshape(np.add(leaf.starts, leaf.sizes) - 1, leaf.shape)
            fits = values.dtype.kind in "iu" and bool(((values >= low) & (values <= high)).all())
            return "" if fits else f"integers from {low.min()} to {high.max()}"
        if leaf.byte:
            return "" if values.dtype == np.uint8 else "bytes (uint8)"
        return "" if values.dtype.kind in "biuf" and np.isfinite(values).all() else "finite numbers"

    return check


def _takes(space: Any) -> Check:
    """The same for actions."""

    def check(values: np.ndarray) -> str:
        if isinstance(space, spaces.Discrete):
            low, high = int(space.start), int(space.start + space.n) - 1
            fits = values.dtype.kind in "iu" and bool(((values >= low) & (values <= high)).all())
            return "" if fits else f"integers from {low} to {high}"
        slack = 1e-5 * (space.high - space.low)  # of other roundings
        fits = values.dtype.kind in "iuf" and bool(
            ((values >= space.low - slack) & (values <= space.high + slack)).all()
        )
        return "" if fits else f"numbers from {space.low.min():g} to {space.high.max():g}"

    return check


def _range(values: np.ndarray) -> str:
    """The type of values and, of numbers, the smallest and the largest one."""
    if values.dtype.kind not in "biuf" or not values.size:
        return str(values.dtype)
    return f"{values.dtype} from {values.min():g} to {values.max():g}"
