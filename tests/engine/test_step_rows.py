"""Some envs are stepped alone: in one call where they are next to each other, with the results of `send` and `recv`."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.engine.engine import Engine


@pytest.mark.parametrize("mode", ["Disabled", "NextStep"])
def test_rows_have_the_results_of_send_and_recv(mode: str) -> None:
    made = [
        rookery.make_vec("rookery/CartPole-v1", 10, "kernel", 1, batch_size=9, autoreset_mode=mode, copy=False)
        for _ in range(2)
    ]
    first, second = made
    for envs in made:
        envs.reset(seed=3)
    generator, playing = np.random.default_rng(0), np.ones(10, bool)
    for _ in range(60):
        rows = np.flatnonzero(playing & (generator.random(10) < 0.7))[:9]
        if not len(rows):
            continue
        actions = generator.integers(0, 2, len(rows))
        expected, found = Engine.step_rows(first, actions, rows), second.step_rows(actions, rows)
        for theirs, ours in zip(expected[:4], found[:4], strict=True):
            np.testing.assert_array_equal(theirs, ours)
        if mode == "Disabled":
            playing[rows[found[2] | found[3]]] = False
    episodes = [np.sort(envs.finished_episodes(), order=["env", "length"]) for envs in made]
    assert len(episodes[0]) >= 5
    for name in ("env", "return", "length"):
        np.testing.assert_array_equal(episodes[0][name], episodes[1][name])
    assert first.stats()[0]["steps"] == second.stats()[0]["steps"]
    for envs in made:
        envs.close()
