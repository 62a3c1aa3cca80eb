"""Checked code: indices out of bounds and draws from nothing are named, with their line."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import rookery
from kernel import planted
from rookery.errors import OptionError, UsageError, WorldError
from rookery.testing import check_world


def line_with(comment):
    """The number of the line in planted.py that ends in this comment."""
    lines = inspect.getsource(planted).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # {comment}"))


def run(world, steps=60, **options):
    envs = rookery.make_vec(world, 8, backend="kernel", **options)
    envs.reset(seed=1)
    for _ in range(steps):
        envs.step(np.zeros(8, np.int64))
    return envs


@pytest.mark.few(2)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("mistake", planted.MISTAKES[1:])
def test_an_index_out_of_bounds_is_named_with_its_line(mistake, mode):
    world = planted.Indices(mistake=planted.MISTAKES.index(mistake))
    with pytest.raises(WorldError) as caught:
        run(world, autoreset_mode=mode)
    told = str(caught.value)
    assert f'planted.py", line {line_with(mistake)}' in told
    said = "becomes an integer" if mistake == "not a number" else "7 is out of bounds"
    assert said in told


@pytest.mark.slow
def test_the_way_of_an_env_that_does_nothing_wrong_is_the_same_with_bounds():
    checked = run(planted.Indices(), steps=20)
    envs = rookery.make_vec(planted.Indices(), 8, backend="kernel", bounds=False)
    envs.reset(seed=1)
    for _ in range(20):
        envs.step(np.zeros(8, np.int64))
    there, here = checked.state_dict()["arrays"], envs.state_dict()["arrays"]
    assert there.keys() == here.keys()
    for name, array in there.items():
        np.testing.assert_array_equal(array, here[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [1, 2, 3])
def test_a_draw_from_nothing_is_an_error(mistake):
    """Without bounds too, though only with them there is a line to show."""
    world = planted.EmptyRanges(mistake=mistake)
    with pytest.raises(WorldError, match=r"integer\(state, \d, \d\) has an empty range") as caught:
        run(world)
    assert f'planted.py", line {line_with(mistake)}' in str(caught.value)
    envs = rookery.make_vec(world, 3, backend="kernel", on_failure="restart", bounds=False)
    envs.reset(seed=1)
    with pytest.raises(WorldError, match=r"with an empty range.*bounds=True"):
        for _ in range(20):
            envs.step(np.zeros(3, np.int64))
    with pytest.raises(UsageError, match=r"call reset\(\)"):
        envs.step(np.zeros(3, np.int64))
    envs.set_parameters(width=9)
    envs.reset(seed=1)
    envs.step(np.zeros(3, np.int64))


def test_a_draw_from_nothing_raises_in_plain_python():
    env = rookery.kernel.kernel_env.KernelEnv(planted.EmptyRanges(mistake=1), plain=True)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="has an empty range"):
        for _ in range(8):
            env.step(0)


@pytest.mark.slow
@pytest.mark.parametrize("world", [planted.WritesParameters, planted.WritesTables])
def test_writes_to_tables_and_parameters_are_refused_before_anything_runs(world):
    with pytest.raises(WorldError, match="tables, parameters and constants are read-only") as caught:
        rookery.make_vec(world, 2, backend="kernel")
    source = inspect.getsource(world if world is planted.WritesParameters else planted.raise_level)
    first = inspect.getsourcelines(world if world is planted.WritesParameters else planted.raise_level)[1]
    line = first + next(k for k, text in enumerate(source.splitlines()) if text.endswith("  # here"))
    assert f'planted.py", line {line}' in str(caught.value)


def test_bounds_are_for_kernel_worlds():
    for world, backend in (("CartPole-v1", "auto"), ("rookery/CartPole-v1", "serial")):
        with pytest.raises(OptionError, match="bounds is for the compiled code of kernel worlds"):
            rookery.make_vec(world, 2, backend=backend, bounds=True)


def test_check_world_finds_an_index_out_of_bounds():
    """In code with checks, before any without is run."""
    report = check_world(lambda: planted.Indices(mistake=4))
    assert len(report.problems) == 1 and f"line {line_with('table row')}" in report.problems[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [1, 2])
def test_a_world_that_never_ends_is_refused_while_it_is_made(kind, monkeypatch):
    """With the line of its loop, in seconds: plain Python is given up, and then the compiled code."""
    monkeypatch.setattr("rookery.kernel.plain.DRY_RUN_SECONDS", 0.5)
    monkeypatch.setattr("rookery.kernel.native.TRIAL_SECONDS", 0.5)
    place = "reset" if kind == 1 else "step"
    for _ in range(kind):  # nothing is stored on disk that would hang the second time
        with pytest.raises(WorldError, match=f"does not end: its {place} was stopped") as caught:
            rookery.make_vec(planted.EndlessFromTheStart(kind=kind), 2, backend="kernel")
        line = line_with(f"endless {place}")
        assert any(f'planted.py", line {number}' in str(caught.value) for number in (line - 1, line))


@pytest.mark.slow
def test_a_later_step_that_never_ends_is_stopped_in_seconds():
    """Without step_timeout; the other envs make the step."""
    envs = rookery.make_vec(planted.Endless(), 3, backend="kernel")
    envs.set_parameters(envs=[1], kind=1)
    envs.reset(seed=1)
    with pytest.raises(WorldError, match=r"env 1, after 6 steps.*a loop does not end(.|\n)*planted.py"):
        for _ in range(8):
            envs.step(np.zeros(3, np.int64))
    assert envs.arena.states["steps"].tolist() == [7, 6, 7]


def test_an_integer_divided_by_zero_at_once_is_refused_while_the_world_is_made():
    with pytest.raises(WorldError, match="integer division or modulo by zero") as caught:
        rookery.make_vec(planted.DividesByZero(), 2, backend="kernel")
    assert f'planted.py", line {line_with("zero")}' in str(caught.value)


def test_a_function_inside_a_function_is_refused():
    with pytest.raises(WorldError, match="no functions inside functions; write it at the top") as caught:
        rookery.make_vec(planted.FunctionInside(), 2, backend="kernel")
    assert f'planted.py", line {line_with("inner")}' in str(caught.value)
