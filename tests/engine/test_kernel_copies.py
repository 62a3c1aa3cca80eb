"""What a step of the kernel backend returns belongs to the caller."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from conformance.compare import same
from kernel.samples import Tug, Walker
from rookery.engine import kernel, plain_loops


@pytest.mark.parametrize("world", [Walker, Tug, pytest.param("rookery/Humanoid-v5", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_infos_are_the_same_in_python_and_compiled(world, mode, monkeypatch):
    """With one agent or two, with arrays among them, over the ends of episodes."""
    kinds = [rookery.make_vec(world, 7, backend="kernel", workers=1, autoreset_mode=mode) for _ in range(2)]
    actions, found = [kinds[0].action_space.sample() for _ in range(40)], []
    for envs, reader in zip(kinds, (plain_loops.read_records, kernel.read_records), strict=True):
        monkeypatch.setattr(kernel, "read_records", reader)
        found.append([envs.reset(seed=3), *(envs.step(action) for action in actions)])
    assert same(*found)


def test_nothing_that_was_returned_changes_later():
    """Neither observations nor infos; and what the caller does with them changes nothing in the envs."""
    envs, others = (rookery.make_vec(Walker, 7, backend="kernel", workers=1) for _ in range(2))
    envs.reset(seed=3), others.reset(seed=3)
    observations, _, _, _, infos = envs.step(np.ones(7, int))
    assert same((observations, infos), others.step(np.ones(7, int))[::4])
    kept = observations.copy(), {key: column.copy() for key, column in infos.items()}
    assert same(envs.step(np.zeros(7, int)), others.step(np.zeros(7, int)))
    assert same((observations, infos), kept)
    observations[:], infos["distance"][:], infos["_distance"][:] = 7.0, 7.0, False
    for _ in range(5):
        assert same(envs.step(np.ones(7, int)), others.step(np.ones(7, int)))
