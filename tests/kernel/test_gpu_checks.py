"""Checked code on a GPU: as fault 34 on a CPU (tests/faults/test_34_kernel_indices.py). Needs an NVIDIA GPU."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch

import rookery
from faults.test_34_kernel_indices import ENVS, VICTIM, place_of, same
from kernel.planted_far import MISTAKES, NUMBER, Far
from rookery.errors import UsageError, WorldError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available() or find_spec("numba_cuda") is None, reason="needs a GPU"),
]
COMPARED = ("states", "rewards", "terminated", "truncated", "infos", "observations")
ON_CPU = ("long",)  # a GPU does not count the iterations of loops


def made(mistake, when):
    envs = rookery.make_vec(Far, ENVS, backend="cuda")
    envs.set_parameters(envs=[VICTIM], mistake=NUMBER[mistake])
    envs.set_parameters(when=when)
    return envs


def step_through(envs, steps):
    envs.reset(seed=5)
    for each in np.random.default_rng(0).integers(0, 2, (steps, ENVS)):
        envs.step(torch.from_numpy(each).to(envs.device))


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name not in ("none", *ON_CPU)])
def test_an_env_that_goes_wrong_is_named_and_no_other_changes(mistake):
    when = 20
    steps = when + (mistake == "begin")
    envs, right = made(mistake, when), made("none", when)
    step_through(right, steps)
    with pytest.raises(WorldError) as caught:
        step_through(envs, steps)
    told = str(caught.value)
    assert MISTAKES[mistake] in told and place_of(mistake) in told and f"env {VICTIM}, " in told, told
    others = np.arange(ENVS) != VICTIM
    for name in COMPARED:
        assert same(envs.arena.host(name)[others], right.arena.host(name)[others]), name
    with pytest.raises(UsageError, match="not in an episode"):
        envs.step(torch.zeros(ENVS, dtype=torch.int64, device=envs.device))


def test_checked_and_unchecked_code_give_the_same():
    sides = []
    for bounds in (True, False):
        envs = rookery.make_vec(Far, ENVS, backend="cuda", bounds=bounds)
        step_through(envs, 200)
        sides.append(envs)
    for name in COMPARED:
        assert same(sides[0].arena.host(name), sides[1].arena.host(name)), name
