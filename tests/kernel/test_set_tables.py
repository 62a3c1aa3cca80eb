"""Other arrays for the tables of a running batch: no compilation, no copies, and nothing read outside of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rookery
from kernel.test_cuda_on_cpu import on_cpu
from kernel.trial_worlds import TraderF4, bars
from rookery.errors import OptionError, ResetNeeded, StateError, UsageError, WorldError
from rookery.kernel import native, runner, tables
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.world import KernelWorld

LONG = bars(400).astype("f4")


class Reader(KernelWorld):
    """Returns one row after the other; its table is an array of the class."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)
    state = {"row": "i8"}
    tables = {"rows": np.arange(8, dtype="f4").reshape(4, 2)}

    @staticmethod
    def reset(state):
        state.row = 0

    @staticmethod
    def step(state, action, tables):
        state.row += 1
        return tables.rows[state.row, 0], False, state.row + 1 == len(tables.rows)

    @staticmethod
    def observe(state, out, tables):
        out[0], out[1] = tables.rows[state.row, 0], tables.rows[state.row, 1]


@pytest.fixture
def plain_engines(monkeypatch):
    monkeypatch.setattr(runner, "load_native", lambda: None)


def stepped(envs, steps=3):
    return [envs.step(np.ones(envs.num_envs, np.int64))[:4] for _ in range(steps)]


def same(one, other):
    return all(np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))


@pytest.mark.slow
def test_a_window_gives_what_a_world_of_that_window_gives(monkeypatch):
    """Compiled: the same code reads another array, which is neither copied nor compiled for."""
    envs = rookery.make_vec(TraderF4(bars=LONG), 4, backend="kernel")
    envs.reset(seed=1)
    stepped(envs)
    monkeypatch.setattr(native, "entry_point", lambda *args: pytest.fail("compiled again"))
    envs.set_tables(bars=LONG[200:350])
    assert envs.arena.tables["bars"].ctypes.data == LONG[200:].ctypes.data
    observations = envs.reset(seed=1)[0].copy()
    results = stepped(envs)
    monkeypatch.undo()
    other = rookery.make_vec(TraderF4(bars=LONG[200:350].copy()), 4, backend="kernel")
    assert np.array_equal(observations, other.reset(seed=1)[0])
    assert same(results, stepped(other))
    assert envs.state_dict()["tables"] == other.state_dict()["tables"]


def test_an_array_of_the_class_may_become_longer_or_shorter(plain_engines):
    envs = rookery.make_vec(Reader, 2, backend="kernel")
    envs.reset(seed=1)
    assert stepped(envs, 1)[0][1].tolist() == [2, 2]
    envs.set_tables(rows=10 * np.arange(12, dtype="f4").reshape(6, 2))
    assert stepped(envs, 1)[0][1].tolist() == [40, 40]  # the episodes go on: every index is still inside
    envs.set_tables(rows=Reader.tables["rows"])
    with pytest.raises(ResetNeeded):
        stepped(envs, 1)
    envs.reset()
    assert [step[3].tolist() for step in stepped(envs)] == [[False] * 2, [False] * 2, [True] * 2]


def test_other_engines_of_the_world_keep_their_tables(plain_engines):
    world = Reader()
    one, other = (rookery.make_vec(world, 1, backend="kernel") for _ in range(2))
    one.set_tables(rows=np.ones((9, 2), "f4"))
    one.reset(seed=1), other.reset(seed=1)
    assert one.step(np.array([0]))[1] == 1.0 and other.step(np.array([0]))[1] == 2.0
    one.resize(3)
    one.reset(seed=1)
    assert one.step(np.zeros(3, np.int64))[1].tolist() == [1, 1, 1]
    assert one.source.makers[0]().tables["rows"].shape == (9, 2)  # a run that is given the engine trains on these
    with pytest.raises(StateError, match=r"its table 'rows' was 4x2 float32 .* now"):
        one.load_state_dict({**one.state_dict(), "tables": other.state_dict()["tables"]})


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"row": [[1, 2]]}, OptionError, "Reader has no table 'row'; did you mean 'rows'"),
        ({"rows": np.ones((3, 3), "f4")}, WorldError, r"'rows' should have the shape \(any, 2\), got \(3, 3\)"),
        ({"rows": np.ones(3, "f4")}, WorldError, r"should have the shape \(any, 2\)"),
        ({"rows": np.ones((3, 2))}, WorldError, "should hold float32, got float64"),
        ({"rows": np.ones((0, 2), "f4")}, WorldError, "is empty"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(plain_engines, given, error, words):
    envs, env = rookery.make_vec(Reader, 2, backend="kernel"), KernelEnv(Reader, plain=True)
    for target in (envs, env, on_cpu(Reader, 2)):
        with pytest.raises(error, match=words):
            target.set_tables(**given)
        assert target.world.tables["rows"].shape == (4, 2)
    with pytest.raises(UsageError, match="call set_tables of the vector env"):
        envs.call("set_tables", **given)


def test_one_env_takes_other_tables_too():
    env = KernelEnv(Reader, plain=True)
    env.reset(seed=1)
    saved = env.get_state()
    env.set_tables(rows=np.full((2, 2), 5, "f4"))
    with pytest.raises(ResetNeeded):
        env.step(0)
    with pytest.raises(StateError, match="saved with other tables"):
        env.set_state(saved)
    assert env.reset()[0].tolist() == [5, 5] and env.step(0)[3]


def test_a_read_only_file_is_not_read_into_memory(tmp_path, monkeypatch):
    """A table in a mapped file stays there, and is hashed only when a state is saved."""
    np.arange(2000, dtype="f4").tofile(tmp_path / "rows")
    rows = np.memmap(tmp_path / "rows", "f4", "r", shape=(1000, 2))
    hashed = []
    monkeypatch.setattr(tables, "_hash", lambda array: hashed.append(array.shape) or "")
    env = KernelEnv(Reader, plain=True)
    env.set_tables(rows=rows[500:])
    env.reset(seed=1)
    assert env.step(0)[0].tolist() == [1002, 1003]
    assert env._env_arrays.tables["rows"].ctypes.data == rows[500:].ctypes.data
    assert not hashed
    env.get_state(), env.get_state()
    assert hashed == [(500, 2)]


def test_engines_on_a_device_share_a_table():
    """One upload for the same array, as long as an engine uses it; another one if the array was changed."""
    rows = np.arange(40, dtype="f4").reshape(20, 2)

    class Declared(Reader):
        tables = {"rows": rookery.Table((None, 2), "f4")}

    one, other = on_cpu(Declared(rows=rows), 2), on_cpu(Declared(rows=rows), 3)
    assert one.arena.tables["rows"].data_ptr() == other.arena.tables["rows"].data_ptr()
    rows[1] = 99
    third = on_cpu(Declared(rows=rows), 2)
    third.reset(seed=1), one.reset(seed=1)
    assert third.step(torch.tensor([0, 0]))[1].tolist() == [99, 99]
    assert one.step(torch.tensor([0, 0]))[1].tolist() == [2, 2]
    one.set_tables(rows=rows[10:])
    with pytest.raises(ResetNeeded):
        one.step(torch.tensor([0, 0]))
    assert one.reset(seed=1)[0][0].tolist() == [20, 21]
    assert one.step(torch.tensor([0, 0]))[1].tolist() == [22, 22]
