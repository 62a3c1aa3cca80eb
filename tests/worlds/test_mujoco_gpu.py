"""MuJoCo worlds as a GPU steps them: around a stand-in for mujoco-warp that is MuJoCo itself, in double precision."""

from __future__ import annotations

import builtins
import json

import mujoco
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import rookery
from rookery.errors import BadValue, MissingExtra, OptionError
from rookery.training.storage.checkpoint import Checkpoints
from rookery.worlds.mujoco import gpu_functions, warp_simulation
from rookery.worlds.mujoco.warp_simulation import load_warp as real_load_warp
from worlds.robots import ARM, Arm, RandomizedArm
from worlds.stand_in_warp import OverflowType, load_stand_in

ACTIONS = np.random.default_rng(1).uniform(-1, 1, (70, 4, 1)).astype(np.float32)
MODES = list(AutoresetMode)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    for module in (gpu_functions, warp_simulation):
        monkeypatch.setattr(module, "load_warp", load_stand_in)


def make(world=Arm, num_envs=4, **options):
    return rookery.make_vec(world, num_envs, backend="cuda", device="cpu", **options)


def as_arrays(results):
    """What a step or reset returned, as arrays."""
    if isinstance(results, dict):
        return {name: as_arrays(part) for name, part in results.items()}
    if isinstance(results, tuple):
        return [as_arrays(part) for part in results]
    return results.numpy().copy() if isinstance(results, torch.Tensor) else np.array(results)


def compare(ours, theirs):
    """The same numbers; rewards are in single precision on a GPU."""
    assert np.array_equal(ours[0], theirs[0])
    for name, mine in ours[-1].items():
        if name.startswith("_") or name in ("final_info", "final_obs"):
            continue
        shown = theirs[-1][f"_{name}"] if f"_{name}" in theirs[-1] else np.ones(len(mine), bool)
        assert np.array_equal(mine[shown], theirs[-1][name][shown]), name
    if len(ours) == 5:
        assert np.array_equal(ours[1], theirs[1].astype(np.float32))
        assert np.array_equal(ours[2], theirs[2]) and np.array_equal(ours[3], theirs[3])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_it_gives_the_numbers_of_the_cpu(mode):
    """Over the ends of episodes, with first observations and infos that need a settled simulation."""
    ours, theirs = make(autoreset_mode=mode), rookery.make_vec(Arm, 4, backend="kernel", autoreset_mode=mode)
    compare(as_arrays(ours.reset(seed=3)), as_arrays(theirs.reset(seed=3)))
    ended = 0
    for actions in ACTIONS:
        mine, other = as_arrays(ours.step(torch.from_numpy(actions))), as_arrays(theirs.step(actions))
        compare(mine, other)
        over = other[2] | other[3]
        ended += over.sum()
        if mode is AutoresetMode.SAME_STEP and over.any():
            assert np.array_equal(mine[-1]["final_obs"][over], np.stack(list(other[-1]["final_obs"][over])))
        if mode is AutoresetMode.DISABLED and over.any():
            options = {"reset_mask": over}
            compare(as_arrays(ours.reset(options=dict(options))), as_arrays(theirs.reset(options=dict(options))))
    assert ended >= 8


def test_each_env_has_its_own_model():
    ours, theirs = make(), rookery.make_vec(Arm, 4, backend="kernel")
    for envs in (ours, theirs):
        envs.set_parameters(mass=np.array([0.5, 1.0, 2.0, 4.0]))
    compare(as_arrays(ours.reset(seed=1)), as_arrays(theirs.reset(seed=1)))
    for actions in ACTIONS[:10]:
        mine = as_arrays(ours.step(torch.from_numpy(actions)))
        compare(mine, as_arrays(theirs.step(actions)))
    assert len(set(mine[0][:, 1])) == 4


@pytest.mark.slow
def test_configure_finds_the_model_as_in_the_file():
    """Also if it multiplies, or writes in some envs only."""
    ours, theirs = make(RandomizedArm), rookery.make_vec(RandomizedArm, 4, backend="kernel")
    for envs in (ours, theirs):
        envs.set_parameters(mass=np.array([0.5, 1.0, 2.0, 4.0]), slide=np.array([0.0, 0.5, 0.0, 0.25]))
    compare(as_arrays(ours.reset(seed=1)), as_arrays(theirs.reset(seed=1)))
    for actions in ACTIONS[:10]:
        compare(as_arrays(ours.step(torch.from_numpy(actions))), as_arrays(theirs.step(actions)))
    ours.set_parameters(slide=np.zeros(4))
    infos = as_arrays(ours.step(torch.from_numpy(ACTIONS[0]))[-1])
    assert infos["friction"].tolist() == [1.0] * 4


def test_a_partial_reset_leaves_the_other_envs_alone():
    """`after_reset` is not called for them, not even for those that have just begun."""

    class Counting(Arm):
        info = {**Arm.info, "draws": "f8"}

        @staticmethod
        def after_reset(state, data, ids, info):
            Arm.after_reset(state, data, ids, info)
            state.settled += 1.0
            info.draws = state.settled

        state = {**Arm.state, "settled": "f8"}

    envs = make(Counting)
    envs.reset(seed=2)
    infos = envs.reset(options={"reset_mask": np.array([True, False, True, False])})[1]
    assert as_arrays(infos["draws"]).tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.slow
def test_a_saved_state_continues_exactly():
    envs = make()
    envs.reset(seed=4)
    for actions in ACTIONS[:20]:
        envs.step(torch.from_numpy(actions))
    state = envs.state_dict()
    other = make()
    other.load_state_dict(state)
    for actions in ACTIONS[20:60]:
        mine = as_arrays(envs.step(torch.from_numpy(actions)))
        compare(mine, as_arrays(other.step(torch.from_numpy(actions))))


def test_a_larger_batch_keeps_the_envs():
    envs, other = make(), make()
    for each in (envs, other):
        each.reset(seed=5)
        each.step(torch.from_numpy(ACTIONS[0]))
    envs.resize(6)
    envs.reset(seed=[None] * 4 + [8, 9], options={"reset_mask": np.arange(6) >= 4})
    mine = as_arrays(envs.step(torch.from_numpy(np.concatenate([ACTIONS[1], ACTIONS[1][:2]]))))
    assert np.array_equal(mine[0][:4], as_arrays(other.step(torch.from_numpy(ACTIONS[1])))[0])


def test_methods_of_envs_see_the_simulation_and_may_change_it():
    envs = make()
    envs.reset(seed=6)
    theirs = rookery.make_vec(Arm, 4, backend="kernel")
    theirs.reset(seed=6)
    compare(as_arrays(envs.step(torch.from_numpy(ACTIONS[0]))), as_arrays(theirs.step(ACTIONS[0])))
    seen = [state.physics[1] for state in envs.get_attr("state")]
    assert seen == [state.physics[1] for state in theirs.get_attr("state")] and len(set(seen)) == 4
    for each in (envs, theirs):
        each.call("reset", seed=11)
    compare(as_arrays(envs.step(torch.from_numpy(ACTIONS[1]))), as_arrays(theirs.step(ACTIONS[1])))


def test_the_state_has_the_layout_of_mujoco():
    envs = make()
    envs.reset(seed=7)
    envs.step(torch.from_numpy(ACTIONS[0]))
    simulation = envs.arena.world.simulation
    model, states = envs.world.model, simulation.read_states()
    for env, host in enumerate(simulation._data.hosts):
        theirs = np.zeros(envs.world.state_size)
        mujoco.mj_getState(model, host, theirs, envs.world.state_kind)
        assert np.array_equal(states[env], theirs)


def test_an_unstable_simulation_is_an_error_of_its_env():
    envs = make()
    envs.reset(seed=8)
    envs.arena.world.simulation.arrays["mj_state_qvel"][2] = torch.nan
    with pytest.raises(BadValue, match=r"env 2, step 1 of its episode: MuJoCo: a number in qvel is NaN"):
        envs.step(torch.from_numpy(ACTIONS[0]))


def test_an_unstable_simulation_begins_again_if_bad_values_are_allowed():
    """As MuJoCo does it."""
    envs = make(bad_values="allow")
    envs.reset(seed=8)
    envs.arena.world.simulation.arrays["mj_state_qvel"][2] = torch.nan
    envs.step(torch.from_numpy(ACTIONS[0]))
    assert np.isfinite(as_arrays(envs.step(torch.from_numpy(ACTIONS[1])))[0]).all()


@pytest.mark.parametrize(
    ("flag", "words"), [(OverflowType.NARROWPHASE, "gpu_contacts"), (OverflowType.NEFC, "gpu_constraints")]
)
def test_full_memory_is_an_error_that_says_what_to_set(flag, words):
    envs = make()
    envs.reset(seed=9)
    envs.arena.world.simulation.arrays["mj_overflow"][1] = int(flag)
    with pytest.raises(BadValue, match=f"env 1, .*set {words} in the class"):
        envs.step(torch.from_numpy(ACTIONS[0]))


def test_it_says_in_what_it_differs(caplog):
    class OtherSolver(Arm):
        xml_file = ARM.replace('timestep="0.01"', 'timestep="0.01" solver="PGS"')

    with caplog.at_level("INFO", "rookery"):
        envs = make(OtherSolver)
    assert "Newton's solver in place of PGS" in caplog.text
    assert envs.world.model.opt.solver == mujoco.mjtSolver.mjSOL_PGS  # on the CPU it stays


def test_what_each_env_cannot_have_of_its_own_is_refused():
    class Springs(Arm):
        @staticmethod
        def configure(model, params):
            model.qpos_spring[0] = params.mass

    with pytest.raises(OptionError, match=r"mujoco-warp cannot simulate .* 'qpos_spring'"):
        make(Springs)


def test_without_mujoco_warp_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without_warp(name, *args, **kwargs):
        if name == "warp":
            raise ImportError("No module named 'warp'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_warp)
    real_load_warp.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install 'rookery\[mujoco-gpu\]'"):
        real_load_warp()


def test_its_memory_is_for_twice_what_a_trial_needs():
    contacts, constraints = warp_simulation.room(Arm())
    assert contacts > 16 and constraints > 32
    arm = Arm()
    arm.gpu_contacts, arm.gpu_constraints = 5, 7
    assert warp_simulation.room(arm) == (5, 7)


def weights_of(run):
    _, tree = Checkpoints(run / "checkpoints", 3).load_latest()
    policy = tree["agent"]["policy"]
    return np.concatenate([policy[key].ravel() for key in sorted(policy)])


def test_an_off_policy_learner_makes_updates_while_envs_are_simulated(tmp_path):
    """Each update but those of the last round is made, and a resumed run makes the same ones as a whole one."""
    small = {"hidden": [8], "critic_hidden": [8], "atoms": 11, "batch_size": 8, "start_steps": 16, "n_step": 2}
    options = {
        "learner": "xqc", "backend": "cuda", "device": "cpu", "num_envs": 4, "seed": 5, "runs_dir": tmp_path,
        "xqc": {**small, "updates_each": "round", "updates_per_step": 2},
        "evaluation": {"episodes": 1, "max_episodes": 1, "every": 10**6}, "checkpoints": {"every": 80},
        "monitor": {"panel": False, "plot": False, "tensorboard": False, "report": False}, "verbose": False,
    }  # fmt: skip
    rookery.train(Arm, steps=160, name="whole", **options)
    rookery.train(Arm, steps=80, name="parts", **options)
    rookery.resume("parts", tmp_path, steps=160)
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert max(line.get("updates", 0) for line in lines) == 2 * (160 - 16) // 4 - 2
    np.testing.assert_array_equal(weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts"))


class Locked(Arm):
    """An arm that may only be pushed down."""

    action_space = spaces.Discrete(2)
    info = {}

    after_reset = None

    @staticmethod
    def control(data, action):
        data.ctrl[0] = 2.0 * action - 1.0

    @staticmethod
    def reward(action):
        return -100.0 if action == 1 else 1.0, False

    @staticmethod
    def action_mask(state, out):
        out[0], out[1] = 1, 0


def test_masks_reach_an_off_policy_learner_while_envs_are_simulated(tmp_path):
    rookery.train(
        Locked, learner="dqn", backend="cuda", device="cpu", num_envs=4, steps=400, runs_dir=tmp_path, name="run",
        dqn={"hidden": [8], "start_steps": 100, "batch_size": 8, "epsilon_end": 1.0},
        evaluation={"episodes": 1, "max_episodes": 1, "every": 10**6}, verbose=False,
        monitor={"panel": False, "plot": False, "tensorboard": False, "report": False},
    )  # fmt: skip
    episodes = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert episodes and {episode["return"] for episode in episodes} == {30.0}
