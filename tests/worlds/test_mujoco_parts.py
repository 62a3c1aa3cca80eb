"""Steps of MuJoCo worlds that threads make in two parts: the same numbers, problems and interrupts as in one part."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import rookery
from conformance.compare import same
from rookery.errors import BadValue, SpaceError, StepTimeout, UsageError
from rookery.kernel.random import uniform
from worlds.robots import ARM, Arm

ENVS = 7
ACTIONS = np.random.default_rng(1).uniform(-1, 1, (60, ENVS, 1)).astype(np.float32)
QVEL = 2  # where velocities begin in the state of an arm


class Shaky(Arm):
    """Its motor draws random numbers and remembers them; it may never come back from `control` (1) or `reward` (2)."""

    parameters = {"mass": 1.0, "endless": 0}
    state = {"height_before": "f8", "shaken": "f8", "turns": "f8"}

    @staticmethod
    def control(state, data, action, params):
        state.shaken += uniform(state, -0.1, 0.1)
        while params.endless == 1:
            state.turns += 1.0
        data.ctrl[0] = action[0] + state.shaken

    @staticmethod
    def reward(state, data, action, params, model, ids, info):
        while params.endless == 2:
            state.turns += 1.0
        info.height = data.site_xpos[ids.tip, 2]
        info.force = data.cfrc_ext[ids.arm, 5]
        return info.height + state.shaken, info.height < 0.1


def in_parts(world, threads=3, **options):
    """Envs whose steps are made in two parts, from the first one on. On two threads, one env of seven is not."""
    envs = rookery.make_vec(world, ENVS, backend="kernel", workers=threads, **options)
    envs._thread_choice.use_threads(1.0)
    assert envs._thread_choice._team.last_steps.shape == (3, 2, ENVS)
    return envs


def both(world, threads=3, **options):
    """The same envs, on one thread and in parts."""
    return rookery.make_vec(world, ENVS, backend="kernel", workers=1, **options), in_parts(world, threads, **options)


def assert_same_steps(alone, parts, actions):
    """Step both; returns how many episodes ended."""
    ends = 0
    for action in actions:
        expected = alone.step(action)
        assert same(parts.step(action), expected)
        assert parts.arena.states.tobytes() == alone.arena.states.tobytes()
        ended = expected[2] | expected[3]
        ends += ended.sum()
        if alone.settings.autoreset_mode is AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended}
            assert same(parts.reset(options=options), alone.reset(options=options))
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(("world", "threads"), [("rookery/Humanoid-v5", 2), (Shaky, 2), (Shaky, 3)])
def test_steps_in_parts_give_the_same_numbers(world, threads, mode):
    """Over the ends of episodes: observations, rewards, infos, states and the statistics of episodes."""
    alone, parts = both(world, threads, autoreset_mode=mode)
    alone.action_space.seed(2)
    actions = ACTIONS if world is Shaky else [alone.action_space.sample() for _ in range(60)]
    for envs in (alone, parts):
        envs.reset(seed=5)
        if world is Shaky:
            envs.set_parameters(mass=np.linspace(0.5, 2.0, ENVS))
    assert assert_same_steps(alone, parts, actions) > ENVS
    found = (np.sort(envs.finished_episodes()[["env", "return", "length"]]) for envs in (alone, parts))
    assert np.array_equal(*found)
    parts.close()


@pytest.mark.slow
def test_a_checkpoint_of_steps_in_parts_continues_on_one_thread():
    """And the other way round: nothing of the two parts is in a state."""
    alone, parts = both(Shaky)
    parts.reset(seed=5)
    for action in ACTIONS[:9]:
        parts.step(action)
    alone.load_state_dict(parts.state_dict())
    assert_same_steps(alone, parts, ACTIONS[9:20])
    parts.load_state_dict(alone.state_dict())
    assert_same_steps(alone, parts, ACTIONS[20:30])
    parts.close()


# --- problems ---------------------------------------------------------------------------------------------------------


def fault(envs, actions):
    """What the first step that fails says."""
    envs.reset(seed=1)
    with pytest.raises(BadValue) as raised:
        for action in actions:
            envs.step(action)
    return str(raised.value)


@pytest.mark.parametrize("memory", [600, 1000, 1400])
def test_full_memory_is_the_same_error(memory):
    """Whether MuJoCo only warns, in either part of a step, or fails."""
    rookery.make_vec(Arm, 2, backend="kernel")  # compiles it: the trial in plain Python would find the error first
    crowded = Arm(xml_file=ARM.replace("<worldbody>", f'<size memory="{memory}"/><worldbody>'))
    alone, parts = both(crowded)
    down = np.ones((40, ENVS, 1), np.float32)
    expected = fault(alone, down)
    assert "MuJoCo" in expected
    for _ in range(2):
        assert fault(parts, down) == expected
    parts.close()


@pytest.mark.parametrize("bad_values", ["raise", "restart", "allow"])
def test_an_unstable_simulation_is_treated_as_on_one_thread(bad_values):
    """MuJoCo finds it in the first part of the step."""
    alone, parts = both(Arm, bad_values=bad_values)
    for envs in (alone, parts):
        envs.reset(seed=1)
        envs.arena.states["physics"][2, QVEL] = 1e20
    if bad_values == "raise":
        for envs in (alone, parts):
            with pytest.raises(BadValue, match=r"^env 2, step 1 of its episode: MuJoCo: a number in qvel is NaN"):
                envs.step(ACTIONS[0])
    else:
        assert_same_steps(alone, parts, ACTIONS[:40])
    parts.close()


@pytest.mark.slow
def test_a_bad_action_begins_nothing():
    envs = in_parts(Shaky)
    envs.reset(seed=1)
    before = envs.arena.states.tobytes()
    actions = ACTIONS[0].copy()
    actions[5] = np.nan
    with pytest.raises(SpaceError, match="env 5"):
        envs.step(actions)
    assert envs.arena.states.tobytes() == before
    envs.close()


# --- interrupts -------------------------------------------------------------------------------------------------------


def assert_usable_after_a_reset(envs):
    with pytest.raises(UsageError, match=r"call reset\(\)"):
        envs.step(ACTIONS[0])
    alone = rookery.make_vec(Shaky, ENVS, backend="kernel", workers=1)
    envs.set_parameters(endless=0)
    assert same(envs.reset(seed=2), alone.reset(seed=2))
    assert_same_steps(alone, envs, ACTIONS[:5])
    envs.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("env", [0, 6])
def test_either_part_is_stopped_after_its_timeout(part, env):
    """While the other threads wait for what was begun, or have nothing left to do."""
    envs = in_parts(Shaky, step_timeout=0.3)
    envs.reset(seed=1)
    envs.step(ACTIONS[0])
    envs.set_parameters(envs=[env], endless=part)
    with pytest.raises(StepTimeout, match=r"Shaky: a step did not end within step_timeout=0.3 s"):
        envs.step(ACTIONS[1])
    assert_usable_after_a_reset(envs)


@pytest.mark.few(1)
@pytest.mark.alone
@pytest.mark.parametrize("part", [1, 2])
def test_ctrl_c_ends_either_part(part):
    envs = in_parts(Shaky)
    envs.reset(seed=1)
    envs.step(ACTIONS[0])
    envs.set_parameters(envs=[3], endless=part)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        envs.step(ACTIONS[1])
    timer.join()
    assert_usable_after_a_reset(envs)
