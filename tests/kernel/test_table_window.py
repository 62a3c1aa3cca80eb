"""Observations that the engine copies from a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.make_vec import make_vec
from rookery.engine.settings import Settings, autoreset
from rookery.errors import WorldError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.random import integer
from rookery.kernel.tables import TableWindow
from rookery.kernel.world import KernelWorld

NUMBERS = np.arange(100, dtype=np.float32)


class Tape(KernelWorld):
    """Reads a tape of numbers, four at a time."""

    observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = spaces.Discrete(2)
    state = {"place": "i8"}
    tables = {"tape": NUMBERS}
    table_window = TableWindow("tape", 1, 4)
    time_limit = 3

    @staticmethod
    def reset(state: Any) -> None:
        state.place = integer(state, 0, 50)

    @staticmethod
    def step(state: Any, action: Any) -> Any:
        state.place += 1 + action
        return 1.0, False

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        out[0], out[5] = -state.place, state.steps

    @staticmethod
    def window_start(state: Any) -> int:
        return state.place


def check(observation: np.ndarray) -> None:
    assert observation[1:5].tolist() == [-observation[0] + k for k in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_the_window_is_the_same_compiled_in_plain_python_and_as_a_gpu_copies_it(mode: str) -> None:
    plain = make_vec(lambda: KernelEnv(Tape, plain=True), 3, backend="serial", autoreset_mode=mode)
    compiled = make_vec(Tape, 3, backend="kernel", autoreset_mode=mode)
    gpu = CudaEngine(resolve(Tape), Settings(3, autoreset_mode=autoreset(mode), copy=True), device="cpu")
    first = [np.asarray(envs.reset(seed=4)[0]) for envs in (plain, compiled, gpu)]
    assert np.array_equal(first[0], first[1])
    assert np.array_equal(first[0], first[2])
    for step in range(9):
        actions = np.array([step % 2, 1, 0])
        results = [envs.step(actions) for envs in (plain, compiled)]
        results.append(gpu.step(torch.from_numpy(actions)))
        seen = [np.asarray(result[0]) for result in results]
        assert np.array_equal(seen[0], seen[1])
        assert np.array_equal(seen[0], seen[2])
        for row in seen[0]:
            check(row)
        if mode == "same_step" and results[0][3].any():
            for env in range(3):
                check(results[1][4]["final_obs"][env])
                assert np.array_equal(results[1][4]["final_obs"][env], np.asarray(results[2][4]["final_obs"][env]))
    for envs in (plain, compiled, gpu):
        envs.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table_window": TableWindow("tape", 3, 4)}, "does not fit into the 6 numbers of an observation"),
        ({"table_window": TableWindow("tap", 1, 4)}, "'tap' should be a table with one dimension"),
        ({"tables": {"tape": NUMBERS.astype(np.float64)}}, "the observation's dtype float32"),
        ({"tables": {"tape": np.append(NUMBERS, np.float32("nan"))}}, "holds NaN or infinity"),
        ({"window_start": None}, "has no window_start"),
        ({"table_window": None}, "has no table_window"),
    ],
)
def test_a_window_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WorldError, match=message):
        type("Tape", (Tape,), change)()


class Ahead(Tape):
    """Its window leaves the table after some steps, on one side or the other."""

    parameters = {"far": 97}
    time_limit = 20

    @staticmethod
    def window_start(state: Any, params: Any) -> int:
        return state.place if state.steps < 6 else params.far


@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("far", [97, -1])
def test_a_window_that_is_not_in_its_table_is_an_error(far: int) -> None:
    """In that env; no number outside the table is read. So on a GPU, whose code runs as plain Python here."""
    envs = make_vec(Ahead, 3, backend="kernel")
    envs.set_parameters(envs=[1], far=far)
    envs.set_parameters(envs=[0, 2], far=0)
    envs.reset(seed=1)
    with pytest.raises(WorldError, match=f"env 1, .*window_start returned {far}, and the table 'tape' of 100"):
        for _ in range(8):
            envs.step(np.zeros(3, np.int64))
    assert envs.arena.states["steps"].tolist() == [6, 6, 6]
    device = CudaEngine(resolve(Ahead), Settings(3), "cpu")
    device.set_parameters(far=far)
    device.reset(seed=1)
    with pytest.raises(WorldError, match=f"window_start returned {far}"):
        for _ in range(8):
            device.step(torch.zeros(3, dtype=torch.int64))
