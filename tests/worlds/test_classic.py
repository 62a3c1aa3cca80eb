"""The twins of Gymnasium's classic control do what the originals do."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rookery
from conformance.compare import record, same

pytestmark = pytest.mark.usefixtures("plain_python")

# Each twin's state, in the order in which the original keeps it.
FIELDS = {
    "CartPole-v1": ("x", "velocity", "angle", "spin"),
    "Pendulum-v1": ("angle", "spin"),
    "Acrobot-v1": ("angle_1", "angle_2", "spin_1", "spin_2"),
    "MountainCar-v0": ("position", "velocity"),
    "MountainCarContinuous-v0": ("position", "velocity"),
}
LIMITS = {
    "CartPole-v1": 500,
    "Pendulum-v1": 200,
    "Acrobot-v1": 500,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
}
CONTINUOUS = ["Pendulum-v1", "MountainCarContinuous-v0"]
# Starts from which episodes end soon, besides those that the originals draw.
NEAR_THE_END = {
    "CartPole-v1": [(2.3, 0.5, 0.0, 0.0), (0.0, 0.0, -0.19, -0.5)],
    "Pendulum-v1": [(0.01, 0.0), (3.1, 7.9), (-50.0, -7.9)],  # nothing ends here; upright, fast, and often wound up
    "Acrobot-v1": [(2.0, 0.1, 1.0, 0.0), (-2.5, -1.0, -1.0, 3.0)],
    "MountainCar-v0": [(0.4, 0.03), (-1.15, -0.06)],
    "MountainCarContinuous-v0": [(0.35, 0.03), (-1.15, -0.06)],
}
STEPS, DRAWN_STARTS = 200, 5

every_twin = pytest.mark.parametrize("name", FIELDS)


class Pair:
    """An original and its twin, stepped together."""

    def __init__(self, name, **kwargs):
        self.name, self.theirs, self.ours = name, gym.make(name), gym.make(f"rookery/{name}", **kwargs)

    def start(self, seed, state=None):
        """Begin where the original begins with this seed, or in a state of our own."""
        self.theirs.reset(seed=seed)
        self.ours.reset(seed=seed)
        self.put(self.theirs.unwrapped.state if state is None else state)

    def put(self, state):
        self.theirs.unwrapped.state = np.array(state, np.float64)
        for field, value in zip(FIELDS[self.name], state, strict=True):
            setattr(self.ours.unwrapped.state, field, value)

    def step(self, action):
        """Step both; returns what comes of it after having compared it."""
        observation, reward, *ends, _ = self.theirs.step(action)
        our_observation, our_reward, *our_ends, _ = self.ours.step(action)
        assert np.allclose(observation, our_observation, rtol=0, atol=1e-4)
        assert our_reward == pytest.approx(reward, rel=0, abs=1e-4 if self.name in CONTINUOUS else 1e-6)
        assert ends == our_ends
        assert our_observation.dtype == observation.dtype
        assert self.ours.observation_space.contains(our_observation)
        return ends


def actions(name, seed):
    """Endless actions, each kept for a few steps, so that they lead somewhere; some lie outside a Box."""
    rng, space = np.random.default_rng(seed), gym.spec(name).make().action_space
    while True:
        action = rng.uniform(-3, 3, 1).astype(np.float32) if name in CONTINUOUS else int(rng.integers(space.n))
        yield from [action] * int(rng.integers(1, 8))


@pytest.mark.few(1)
@every_twin
def test_spaces_are_the_originals(name):
    """Observations and actions have the original's spaces: bounds, shape and dtype."""
    pair = Pair(name)
    assert pair.ours.observation_space == pair.theirs.observation_space
    assert pair.ours.action_space == pair.theirs.action_space


@pytest.mark.few(1)
@every_twin
@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
def test_a_twin_follows_its_original(name, plain):
    """From the same starts, the same actions give the original's observations, rewards and ends, for 200 steps each."""
    pair, endings = Pair(name, plain=plain), 0
    for number, state in enumerate([None] * DRAWN_STARTS + NEAR_THE_END[name]):
        pair.start(number, state)
        for action in itertools.islice(actions(name, number), STEPS):
            if any(pair.step(action)):
                endings += 1
                break
    assert endings >= 2


@pytest.mark.few(1)
@every_twin
def test_the_time_limit_is_the_originals(name):
    """An episode in which nothing happens is truncated at the same step as the original's."""
    pair, steps, ends = Pair(name), 0, [False, False]
    pair.start(0)
    while not any(ends):
        ends, steps = pair.step(idle(pair)), steps + 1
        pair.put(
            [getattr(pair.ours.unwrapped.state, field) for field in FIELDS[name]]
        )  # or a pole balanced for long magnifies 1e-16
    assert ends == [False, True]
    assert steps == LIMITS[name]


def idle(pair):
    """An action that leads nowhere: no force, or a push to where the pole leans."""
    if pair.name in CONTINUOUS:
        return np.zeros(1, np.float32)
    state = pair.ours.unwrapped.state
    return 1 if pair.name != "CartPole-v1" else int(state.angle + 0.3 * state.spin + 0.05 * state.velocity > 0)


@every_twin
def test_starts_are_drawn_as_the_original_draws(name):
    """First observations fill the range of the original's, and nothing beyond."""
    ours = rookery.make_vec(f"rookery/{name}", 2000, backend="kernel").reset(seed=1)[0]
    original = gym.make(name)
    theirs = np.array([original.reset(seed=k)[0] for k in range(2000)])
    spread = np.ptp(theirs, axis=0)
    assert np.allclose(ours.min(axis=0), theirs.min(axis=0), rtol=0, atol=0.02 * spread.max())
    assert np.allclose(ours.max(axis=0), theirs.max(axis=0), rtol=0, atol=0.02 * spread.max())
    assert np.allclose(ours.mean(axis=0), theirs.mean(axis=0), rtol=0, atol=0.05 * spread.max())
    assert np.allclose(ours.std(axis=0), theirs.std(axis=0), rtol=0, atol=0.03 * spread.max())


@every_twin
@pytest.mark.filterwarnings("ignore:.*(infinity|symmetric and normalized):UserWarning")
def test_gymnasiums_checker_is_content(name):
    """`check_env` finds nothing wrong; what it dislikes about unbounded or unnormalised spaces is the original's."""
    check_env(gym.make(f"rookery/{name}").unwrapped)


@pytest.mark.few(1)
@every_twin
def test_every_backend_gives_the_same_trajectories(name):
    """Serial, thread, process and kernel agree to the last bit, whole episodes and resets included."""
    results = []
    for backend, workers in (("serial", 1), ("thread", 2), ("process", 2), ("kernel", 1)):
        options = {"time_limit": 23}
        envs = rookery.make_vec(f"rookery/{name}", 3, backend=backend, workers=workers, env_kwargs=options)
        results.append(record(envs, steps=60))
        envs.close()
    assert all(same(results[0], other) for other in results[1:])
    assert any(step[2].any() or step[3].any() for step in results[0][1:])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_actions_outside_the_box_are_clipped(name):
    """Any finite force is taken for the nearest that is allowed."""
    envs = [gym.make(f"rookery/{name}").unwrapped for _ in range(2)]
    bound = float(envs[0].action_space.high[0])
    for env, action in zip(envs, (1000.0, bound), strict=True):
        env.reset(seed=5)
        env.step(np.array([action], np.float32))
    assert [getattr(envs[0].state, field) for field in FIELDS[name]] == [
        getattr(envs[1].state, field) for field in FIELDS[name]
    ]


def test_a_force_is_paid_for_as_asked():
    """MountainCarContinuous charges for the force before it is clipped, as the original does."""
    env = gym.make("rookery/MountainCarContinuous-v0")
    env.reset(seed=1)
    assert env.step(np.array([3.0], np.float32))[1] == pytest.approx(-0.9)


def test_cartpole_can_pay_as_in_the_book():
    """With `sutton_barto_reward` a step is worth 0 and the fall -1, as with the original's argument of that name."""
    theirs = gym.make("CartPole-v1", sutton_barto_reward=True)
    ours = gym.make("rookery/CartPole-v1", sutton_barto_reward=True)
    for env in (theirs, ours):
        env.reset(seed=1)
    theirs.unwrapped.state = np.array([0.0, 0.0, 0.1, 0.0])
    ours.unwrapped.state.x = ours.unwrapped.state.velocity = ours.unwrapped.state.spin = 0.0
    ours.unwrapped.state.angle = 0.1
    rewards = [[], []]
    for env, seen in zip((theirs, ours), rewards, strict=True):
        ended = False
        while not ended:
            _, reward, ended, _, _ = env.step(0)
            seen.append(reward)
    assert rewards[0] == rewards[1]
    assert rewards[1][-1] == -1.0 and not any(rewards[1][:-1])


@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [
        ("Pendulum-v1", {"gravity": 3.7}, {"g": 3.7}),
        ("MountainCar-v0", {"goal_velocity": 0.03}, {"goal_velocity": 0.03}),
        ("MountainCarContinuous-v0", {"goal_velocity": 0.03}, {"goal_velocity": 0.03}),
    ],
)
def test_the_originals_arguments_are_parameters(name, ours, theirs):
    """What the original takes as an argument, the twin takes as a parameter, to the same effect."""
    pair = Pair(name, **ours)
    pair.theirs = gym.make(name, **theirs)
    for number, state in enumerate([None, None, *NEAR_THE_END[name]]):
        pair.start(number, state)
        for action in itertools.islice(actions(name, number), 60):
            if any(pair.step(action)):
                break
