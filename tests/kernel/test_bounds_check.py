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
