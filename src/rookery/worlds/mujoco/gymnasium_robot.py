"""What the compiled versions of Gymnasium's MuJoCo tasks share: model files, starts, and sums rounded as NumPy does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rookery.kernel.random import normal, uniform
from rookery.worlds.mujoco.mujoco_library import without_log
from rookery.worlds.mujoco.mujoco_world import MujocoWorld

LANES = 8  # NumPy adds 8 or more numbers in 8 sums, which it adds in the end; up to 128 numbers, that is all


class GymnasiumRobot(MujocoWorld):
    """A task of Gymnasium, with its options. From the same state, the same actions give the same results."""

    time_limit = 1000
    hidden_positions = 1  # how many are not observed, if the option says so

    @classmethod
    def model_path(cls, source: str) -> Path:
        """A name without a folder is one of Gymnasium's models, as in Gymnasium."""
        if source.startswith((".", "/", "~")):
            return super().model_path(source)
        from gymnasium.envs.mujoco import mujoco_env

        return super().model_path(str(Path(mujoco_env.__file__).parent / "assets" / source))

    def read_model(self) -> Any:
        with without_log():  # some of Gymnasium's files have attributes that MuJoCo 4 warns about
            return super().read_model()

    def observation_size(self) -> int:
        """Positions and velocities, without the first `hidden_positions`, if these are excluded."""
        hidden = self.fixed.get("exclude_current_positions_from_observation", False)
        return self.model.nq + self.model.nv - self.hidden_positions * bool(hidden)


# --- compiled ---------------------------------------------------------------------------------------------------------


def start_uniform(state: Any, data: Any, scale: float) -> None:
    """Add uniform noise to positions and velocities."""
    for k in range(len(data.qpos)):
        data.qpos[k] += uniform(state, -scale, scale)
    for k in range(len(data.qvel)):
        data.qvel[k] += uniform(state, -scale, scale)


def start_normal(state: Any, data: Any, scale: float) -> None:
    """Add uniform noise to positions, and normal noise to velocities."""
    for k in range(len(data.qpos)):
        data.qpos[k] += uniform(state, -scale, scale)
    for k in range(len(data.qvel)):
        data.qvel[k] += normal(state, 0.0, scale)


def write_state(data: Any, out: Any, hidden: int) -> int:
    """Write positions, without the first `hidden`, and velocities; returns how many numbers that is."""
    positions = len(data.qpos) - hidden
    for k in range(positions):
        out[k] = data.qpos[k + hidden]
    for k in range(len(data.qvel)):
        out[positions + k] = data.qvel[k]
    return positions + len(data.qvel)


def write_clipped_state(data: Any, out: Any, hidden: int) -> None:
    """The same, with velocities between -10 and 10."""
    size = write_state(data, out, hidden)
    for k in range(size - len(data.qvel), size):
        out[k] = min(max(out[k], -10.0), 10.0)


def single(number: float) -> float:
    """Rounded to single precision, as NumPy computes with actions."""
    return float(np.float32(number))


def action_cost(weight: float, action: Any) -> float:
    """`weight * np.sum(np.square(action))`, for an action in single precision."""
    return single(single(weight) * squared_sum(action))


def squared_sum(action: Any) -> float:
    """`np.sum(np.square(action))`, for an action in single precision of at most 15 numbers."""
    size = len(action)
    if size < LANES:
        total = 0.0
        for k in range(size):
            total = single(total + single(action[k] * action[k]))
        return total
    total = 0.0
    for pair in range(0, LANES, 4):
        first = single(single(action[pair] * action[pair]) + single(action[pair + 1] * action[pair + 1]))
        second = single(single(action[pair + 2] * action[pair + 2]) + single(action[pair + 3] * action[pair + 3]))
        total = single(total + single(first + second))
    for k in range(LANES, size):
        total = single(total + single(action[k] * action[k]))
    return total


def double_squared_sum(numbers: Any) -> float:
    """`np.sum(np.square(numbers))`, for at most 128 numbers in double precision."""
    size = len(numbers)
    whole = size - size % LANES
    total = 0.0
    if whole > 0:
        for pair in range(0, LANES, 4):
            first = _lane(numbers, pair, whole) + _lane(numbers, pair + 1, whole)
            total += first + (_lane(numbers, pair + 2, whole) + _lane(numbers, pair + 3, whole))
    for k in range(whole, size):
        total += numbers[k] * numbers[k]
    return total


def _lane(numbers: Any, lane: int, whole: int) -> float:
    total = numbers[lane] * numbers[lane]
    for k in range(lane + LANES, whole, LANES):
        total += numbers[k] * numbers[k]
    return total


def clipped_squared_sum(rows: Any, low: float, high: float) -> float:
    """`np.sum(np.square(np.clip(rows, low, high)))`, for rows of 6 numbers, at most 128 in all."""
    size = 6 * rows.shape[0]
    whole = size - size % LANES
    total = 0.0
    if whole > 0:
        for pair in range(0, LANES, 4):
            first = _row_lane(rows, pair, whole, low, high) + _row_lane(rows, pair + 1, whole, low, high)
            second = _row_lane(rows, pair + 2, whole, low, high) + _row_lane(rows, pair + 3, whole, low, high)
            total += first + second
    for k in range(whole, size):
        total += _clipped_square(rows, k, low, high)
    return total


def _row_lane(rows: Any, lane: int, whole: int, low: float, high: float) -> float:
    total = _clipped_square(rows, lane, low, high)
    for k in range(lane + LANES, whole, LANES):
        total += _clipped_square(rows, k, low, high)
    return total


def _clipped_square(rows: Any, k: int, low: float, high: float) -> float:
    number = min(max(rows[k // 6, k % 6], low), high)
    return number * number
