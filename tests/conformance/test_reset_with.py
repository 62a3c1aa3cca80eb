"""Options that wait for the next episode: taken up when it begins and not before, on every backend alike."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from conformance.worlds import Informer
from rookery.errors import OptionError

WORLD = "rookery/CartPole-v1"
BACKENDS = ["serial", "thread", "process", "kernel"]
MODES = ["NextStep", "SameStep"]


def play(backend, mode, steps=160):
    """Envs 0 and 2 get a gravity of their own, another one after each episode."""
    envs = rookery.make_vec(WORLD, 3, backend=backend, workers=min(2, 3), autoreset_mode=mode)
    seen, gravities = [], []
    try:
        envs.reset_with({0: {"gravity": 20.0}, 2: {"gravity": 5.0}})
        observations, _ = envs.reset(seed=3)
        seen.append(observations.copy())
        rng, count = np.random.default_rng(0), 0
        for _ in range(steps):
            observations, rewards, terminated, truncated, _ = envs.step(rng.integers(2, size=3))
            seen += [observations.copy(), rewards, terminated, truncated]
            gravities.append(envs.get_attr("gravity"))
            for env in np.flatnonzero(terminated | truncated):
                count += 1
                if env != 1:
                    envs.reset_with({int(env): {"gravity": 9.8 + count}})
    finally:
        envs.close()
    return seen, gravities


@pytest.fixture(scope="module", params=MODES)
def serial(request):
    return request.param, *play("serial", request.param)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_every_backend_takes_them_up_at_the_same_time(serial, backend):
    """The same numbers as the serial loop: options change nothing before the episode that they are for."""
    mode, seen, gravities = serial
    their_seen, their_gravities = play(backend, mode)
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(seen, their_seen, strict=True))
    if mode == "SameStep":
        assert gravities == their_gravities


def test_an_episode_under_way_continues_as_it_is(serial):
    """Gravity changes only where an episode begins, and is never changed in env 1."""
    _, seen, gravities = serial
    values = np.array(gravities)
    assert (values[:, 1] == 9.8).all()
    assert len(np.unique(values[:, 0])) > 3
    ends = np.array([t | e for t, e in zip(seen[3::4], seen[4::4], strict=True)])
    changed = values[1:] != values[:-1]
    after = ends[1:] if serial[0] == "SameStep" else ends[:-1]
    assert not (changed & ~after).any()


@pytest.mark.parametrize("backend", BACKENDS[:3])
def test_envs_get_them_as_options_of_reset(backend):
    """Any Gymnasium env sees them where reset() has its options; those given to reset() itself win."""
    envs = rookery.make_vec(Informer, 2, backend=backend, workers=2, autoreset_mode="SameStep")
    try:
        envs.reset_with({0: {"level": 7}})
        assert envs.reset(seed=1)[1]["option"].tolist() == [7, -1]
        assert envs.reset(seed=1, options={"level": 3})[1]["option"].tolist() == [3, 3]
        for _ in range(7):
            infos = envs.step(np.zeros(2, int))[4]
        assert infos["option"].tolist() == [7, -1]
    finally:
        envs.close()


def test_a_new_worker_knows_them():
    """An env whose worker was killed begins with the options that were waiting for its next episode."""
    import os
    import signal

    envs = rookery.make_vec(Informer, 2, backend="process", workers=2, autoreset_mode="SameStep", on_failure="restart")
    try:
        envs.reset(seed=1)
        envs.reset_with({1: {"level": 9}})
        os.kill(envs.stats()[1]["pid"], signal.SIGKILL)
        seen = [envs.step(np.zeros(2, int))[4] for _ in range(9)]
        assert [infos["option"].tolist()[1] for infos in seen if "option" in infos and infos["_option"][1]] == [9]
    finally:
        envs.close()


@pytest.mark.parametrize("backend", ["serial", "kernel"])
def test_unknown_envs_and_parameters_are_refused(backend):
    """There is no env 5, and no parameter `gravitas`, which a kernel world can tell at once."""
    envs = rookery.make_vec(WORLD, 2, backend=backend, workers=1)
    try:
        with pytest.raises(OptionError, match="there is no env 5"):
            envs.reset_with({5: {"gravity": 1.0}})
        if backend == "kernel":
            with pytest.raises(OptionError, match="gravitas"):
                envs.reset_with({0: {"gravitas": 1.0}})
    finally:
        envs.close()
