"""Worlds that MuJoCo simulates: plain, compiled, saved, and what they refuse."""

from __future__ import annotations

import gc
import pickle
from types import SimpleNamespace

import mujoco
import numpy as np
import psutil
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import rookery
from conformance.compare import record, same
from rookery.errors import BadValue, OptionError, StateError, WorldError
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.mujoco import mujoco_library
from worlds.robots import ARM, Arm, RandomizedArm

ACTIONS = np.random.default_rng(1).uniform(-1, 1, (70, 4, 1)).astype(np.float32)
QPOS, QVEL = 1, 2  # where they begin in the state: after the time, and after the one position


def test_plain_python_gives_the_numbers_of_compiled_code():
    """Infos of resets and steps included, over the ends of episodes."""
    plain, compiled = KernelEnv(Arm, plain=True), KernelEnv(Arm)
    assert same(plain.reset(seed=3), compiled.reset(seed=3))
    for action in ACTIONS[:40, 0]:
        step = plain.step(action)
        assert same(step, compiled.step(action))
        if step[3]:
            assert same(plain.reset(), compiled.reset())


def test_the_simulation_is_that_of_the_python_bindings():
    """From the same state, the same controls."""
    env = KernelEnv(Arm, plain=True)
    env.reset(seed=1)
    model = mujoco.MjModel.from_xml_string(ARM)
    model.body_mass[1] = 1.0
    data = mujoco.MjData(model)
    data.qpos[0] = env.state.physics[QPOS]
    mujoco.mj_forward(model, data)
    for action in ACTIONS[:20, 0]:
        observation, *_, info = env.step(action)
        data.ctrl[:] = action
        mujoco.mj_step(model, data, nstep=2)
        mujoco.mj_rnePostConstraint(model, data)
        assert observation.tolist() == [data.qpos[0], data.qvel[0], *data.sensordata[:3]]
        assert info["force"] == data.cfrc_ext[1, 5]


@pytest.mark.filterwarnings("ignore:.*Box observation space.*:UserWarning", "ignore:.*action space.*:UserWarning")
def test_it_is_an_env():
    check_env(KernelEnv(Arm, plain=True), skip_render_check=True)


def test_a_batch_on_several_threads_gives_the_same_numbers():
    """Each thread has data of its own; which thread steps an env does not show."""
    one, four = (rookery.make_vec(Arm, 16, backend="kernel", workers=k) for k in (1, 4))
    four._thread_choice.use_threads()
    assert same(record(one, 70), record(four, 70))
    four.close()


def test_steps_do_not_read_the_clock():
    """MuJoCo's Python bindings let it measure each part of a step."""
    rookery.make_vec(Arm, 2, backend="kernel")
    model = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    assert data.timer.number.any() and not data.timer.duration.any()


def test_each_env_has_its_own_parameters():
    """The model that a thread uses is set up for the env that it steps."""
    envs = rookery.make_vec(Arm, 4, backend="kernel")
    envs.set_parameters(mass=[0.5, 1.0, 2.0, 1.0])
    envs.reset(seed=[7, 7, 7, 7])
    observations = envs.step(np.zeros((4, 1), np.float32))[0]
    alone = KernelEnv(Arm, mass=2.0, plain=True)
    alone.reset(seed=7)
    assert np.array_equal(alone.step(np.zeros(1, np.float32))[0], observations[2])
    assert np.array_equal(observations[1], observations[3])


@pytest.mark.few(1)
@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("workers", [1, 2])
def test_configure_finds_the_model_as_in_the_file(workers):
    """Also if it multiplies, or writes in some envs only: nothing is left of other steps and other envs."""
    mass, slide = np.array([0.5, 1.0, 2.0, 1.0]), np.array([0.0, 0.3, 0.0, 0.7])
    original = mujoco.MjModel.from_xml_string(RandomizedArm.xml_file)
    envs = rookery.make_vec(RandomizedArm, 4, backend="kernel", workers=workers)
    envs.set_parameters(mass=mass, slide=slide)
    envs.reset(seed=1)
    for actions in ACTIONS[:40]:  # over the end of an episode
        *_, infos = envs.step(actions)
        shown = infos["mass"] > 0  # not in the step that begins an episode
        assert np.array_equal(infos["mass"][shown], (original.body_mass[1] * mass)[shown])
        assert np.array_equal(infos["friction"][shown], np.where(slide > 0, slide, original.geom_friction[1, 0])[shown])
        assert np.array_equal(infos["fall"][shown], (original.opt.gravity[2] * mass)[shown])
    envs.close()


@pytest.mark.slow
def test_plain_python_configures_as_compiled_code_does():
    plain, compiled = (KernelEnv(RandomizedArm, mass=1.5, slide=0.2, plain=plain) for plain in (True, False))
    assert same(plain.reset(seed=3), compiled.reset(seed=3))
    for action in ACTIONS[:10, 0]:
        assert same(plain.step(action), compiled.step(action))


def test_only_what_configure_names_is_copied():
    assert [field.name for field in RandomizedArm().configured_fields] == ["body_mass", "geom_friction", "gravity"]

    class Fixed(Arm):
        configure = None

    assert Fixed().configured_fields == []


def test_settings_are_fixed_when_the_world_is_made():
    envs = [KernelEnv(Arm, plain=True, height_weight=weight) for weight in (1.0, 3.0)]
    rewards = [env.reset(seed=1) and env.step(np.zeros(1, np.float32))[1] for env in envs]
    assert rewards[0] != rewards[1]
    with pytest.raises(OptionError, match="no parameter 'height_weight'"):
        envs[0].set_parameters(height_weight=2.0)
    with pytest.raises(OptionError, match="'height_weight' should be a number"):
        Arm(height_weight="much")


def test_a_state_holds_the_warm_start_of_the_solver():
    """Loaded elsewhere, envs continue to the last bit; with another model they are rejected."""
    first, second = (rookery.make_vec(Arm, 4, backend="kernel") for _ in range(2))
    first.reset(seed=1)
    for action in ACTIONS[:20]:
        first.step(action)
    second.load_state_dict(first.state_dict())
    assert same([first.step(row) for row in ACTIONS[20:]], [second.step(row) for row in ACTIONS[20:]])
    other = rookery.make_vec(Arm(xml_file=ARM.replace("0.1", "0.2")), 4, backend="kernel")
    with pytest.raises(StateError, match="'model'"):
        other.load_state_dict(first.state_dict())


def test_a_world_can_be_pickled():
    world = pickle.loads(pickle.dumps(Arm(mass=2.0)))
    one, other = KernelEnv(world, plain=True), KernelEnv(Arm, plain=True, mass=2.0)
    one.reset(seed=1), other.reset(seed=1)
    assert same(one.step(ACTIONS[0, 0]), other.step(ACTIONS[0, 0]))


class TouchingArm(Arm):
    """Contacts between its bar and the ground, by a sensor of two places: count, force, distance."""

    xml_file = ARM.replace(
        "</sensor>",
        '<contact name="touch" geom1="ground" geom2="bar" num="2" data="found force dist" reduce="mindist"/></sensor>',
    )
    ids = {**Arm.ids, "touch": ["sensor", "touch"]}
    observation_space = spaces.Box(-np.inf, np.inf, (10,), np.float64)

    @staticmethod
    def observe(data, out, model, ids):
        first = model.sensor_adr[ids.touch]
        for k in range(10):
            out[k] = data.sensordata[first + k]


def test_contacts_are_seen_by_a_sensor():
    """Their number, and of the deepest the force and the distance, as the Python bindings list them."""
    env, model = KernelEnv(TouchingArm, plain=True), mujoco.MjModel.from_xml_string(TouchingArm.xml_file)
    env.reset(seed=1)
    model.body_mass[1] = 1.0
    data, counts, force = mujoco.MjData(model), [], np.zeros(6)
    data.qpos[0] = env.state.physics[QPOS]
    for _ in range(25):
        seen = env.step(np.ones(1, np.float32))[0]
        data.ctrl[:] = 1.0
        mujoco.mj_step(model, data, nstep=2)
        counts.append(data.ncon)
        assert seen[0] == data.ncon
        if data.ncon:
            deepest = int(np.argmin(data.contact.dist))
            mujoco.mj_contactForce(model, data, deepest, force)
            assert np.array_equal(seen[1:4], force[:3]) and seen[4] == data.contact.dist[deepest]
    assert 0 in counts and max(counts) > 0, "it hits the ground"


def test_a_renderer_that_does_not_work_is_said(monkeypatch):
    def fail(self, mode):
        raise mujoco.FatalError("gladLoadGL error")

    monkeypatch.setenv("MUJOCO_GL", "glfw")
    monkeypatch.setattr("gymnasium.envs.mujoco.mujoco_rendering.MujocoRenderer.render", fail)
    env = KernelEnv(Arm, plain=True, render_mode="rgb_array")
    env.reset(seed=1)
    with pytest.raises(
        WorldError, match=r"^MuJoCo cannot draw with MUJOCO_GL=glfw \(gladLoadGL error\): .*egl.*osmesa"
    ):
        env.render()


def test_the_renderer_is_given_the_camera_of_the_world(monkeypatch):
    """The picture itself is left out: it needs EGL."""
    monkeypatch.setattr(
        "gymnasium.envs.mujoco.mujoco_rendering.MujocoRenderer.render", lambda self, mode: self.default_cam_config
    )
    for options, camera in (({}, None), ({"default_camera_config": {"distance": 2.0}}, {"distance": 2.0})):
        env = KernelEnv(Arm, plain=True, render_mode="rgb_array", **options)
        env.reset(seed=1)
        assert env.render() == camera


# --- problems ---------------------------------------------------------------------------------------------------------


def test_an_unstable_simulation_is_an_error_with_env_and_step(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    envs = rookery.make_vec(Arm, 4, backend="kernel")
    envs.reset(seed=1)
    envs.step(ACTIONS[0])
    envs.arena.states["physics"][2, QVEL] = 1e20
    with pytest.raises(BadValue, match=r"^env 2, step 2 of its episode: MuJoCo: a number in qvel is NaN.*unstable"):
        envs.step(ACTIONS[1])
    assert not list(tmp_path.iterdir()), "MuJoCo's own log is not written"


@pytest.mark.parametrize("bad_values", ["restart", "allow"])
def test_an_unstable_simulation_may_be_restarted_or_left(bad_values):
    envs = rookery.make_vec(Arm, 3, backend="kernel", bad_values=bad_values)
    envs.reset(seed=1)
    envs.arena.states["physics"][1, QVEL] = 1e20
    *_, truncated, infos = envs.step(ACTIONS[0, :3])
    assert truncated.tolist() == [False, bad_values == "restart", False]
    assert ("restarted" in infos) == (bad_values == "restart")
    for action in ACTIONS[1:40, :3]:
        envs.step(action)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (600, "there are more contacts than its memory holds: set <size memory="),
        (1000, "there are more constraints than its memory holds: set <size memory="),
        (1400, r"MuJoCo failed: mj_stackAlloc: out of memory, stack overflow"),
    ],
)
def test_full_memory_is_an_error_that_the_process_survives(memory, message):
    """MuJoCo alone would ignore some contacts, or end the process."""
    rookery.make_vec(Arm, 2, backend="kernel")  # compiles it: the trial in plain Python would find the error first
    crowded = Arm(xml_file=ARM.replace("<worldbody>", f'<size memory="{memory}"/><worldbody>'))
    envs = rookery.make_vec(crowded, 2, backend="kernel")
    down = np.ones((2, 1), np.float32)
    for _ in range(2):
        envs.reset(seed=1)
        with pytest.raises(BadValue, match=rf"env 0, step \d+ of its episode: .*{message}"):
            for _ in range(40):
                envs.step(down)


class NoReward(Arm):
    reward = None


class OneValue(Arm):
    @staticmethod
    def reward(data):
        return data.qpos[0]


class SwappedValues(Arm):
    @staticmethod
    def reward(data):
        return False, data.qpos[0]


class NoSuchKind(Arm):
    ids = {**Arm.ids, "tip": ("sight", "tip")}


class NameOnly(Arm):
    ids = {**Arm.ids, "tip": "tip"}


class WithSelf(Arm):
    def reset(self):
        pass


class TypingError(Arm):
    @staticmethod
    def control(data, actoin):
        pass


class EarlyLook(Arm):
    @staticmethod
    def control(state, data, action):
        state.height_before = data.xpos[1, 2]  # not known before the step


@pytest.mark.parametrize(
    ("world", "options", "message"),
    [
        (NoReward, {}, r"NoReward has no reward: write a static method `def reward\(state, data, action\)`"),
        (NoSuchKind, {}, "NoSuchKind.ids: there is no kind 'sight'; the kinds are body, joint, geom, site, actuator"),
        (NameOnly, {}, r"NameOnly.ids: 'tip' should be \(kind, name in the model\), got 'tip'"),
        (WithSelf, {}, "WithSelf.reset should be a static method: put @staticmethod"),
        (TypingError, {}, "TypingError.control has an unknown argument 'actoin'; it may have state, params"),
        (Arm, {"xml_file": "nowhere.xml"}, "no model file 'nowhere.xml', neither here nor at .*worlds/nowhere.xml"),
        (Arm, {"xml_file": "<mujoco><nothing/></mujoco>"}, "MuJoCo cannot read its model: .*nothing"),
        (Arm, {"xml_file": ARM.replace('"tip"', '"top"')}, "the model has no site 'tip'"),
        (Arm, {"frame_skip": 0}, "frame_skip should be an integer >= 1, got 0"),
        (Arm, {"masss": 0}, "no parameter 'masss'; did you mean 'mass'"),
        (EarlyLook, {}, "'data_before_step' object has no attribute 'xpos'"),
    ],
)
def test_what_is_wrong_is_said(world, options, message):
    with pytest.raises((WorldError, OptionError, AttributeError), match=message):
        env = KernelEnv(world, plain=True, **options)
        env.reset(seed=1)
        env.step(ACTIONS[0, 0])


@pytest.mark.parametrize(("world", "why"), [(OneValue, "cannot unpack"), (SwappedValues, "is not a bool")])
def test_what_reward_should_return_is_said_at_its_line(world, why):
    with pytest.raises(WorldError, match=rf"{why}.* \(reward should return the reward and whether") as caught:
        KernelEnv(world)
    assert f'{__file__}", line {world.reward.__code__.co_firstlineno + 2}\n' in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"__version__": "9.1"}, r"^MuJoCo 9.1 cannot be called from compiled worlds: rookery knows MuJoCo 4 only$"),
        ({"__file__": "/nowhere/__init__.py"}, "its shared library is not beside its package"),
    ],
)
def test_another_library_is_refused(change, message, monkeypatch):
    kept = {name: getattr(mujoco, name) for name in ("__version__", "__file__")}
    monkeypatch.setattr(mujoco_library, "load_package", lambda: SimpleNamespace(**{**kept, **change}))
    with pytest.raises(WorldError, match=message):
        mujoco_library.load.__wrapped__()


def test_a_library_that_steps_in_another_way_is_refused():
    library = mujoco_library.load()
    assert mujoco_library.trial_problem(library) == ""
    odd = {**library.functions, "mj_step": library.functions["mj_forward"]}
    assert "do not what those of its Python bindings do" in mujoco_library.trial_problem(
        library._replace(functions=odd)
    )


def test_memory_is_freed():
    """MuJoCo's memory belongs to the batch, and goes with it."""
    world, process = Arm(xml_file=ARM.replace("<worldbody>", '<size memory="20M"/><worldbody>')), psutil.Process()

    def make_some():
        for _ in range(10):
            arrays = EnvArrays(world, 1, slots=2)
            for _, data, _ in arrays._scratch_owner._kept:
                mujoco.mj_resetData(world.model, data)  # so that its pages are used
        gc.collect()

    make_some()
    before = process.memory_info().rss
    make_some()
    assert process.memory_info().rss - before < 40e6, "ten times 2 x 20 MB were used"
