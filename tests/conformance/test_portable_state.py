"""`state_dict(portable=True)`: envs as arrays and plain values, through a file, and on as if nothing had been."""

from __future__ import annotations

import enum
import random
from collections import Counter as MatchScore
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation, NormalizeObservation, NormalizeReward, RecordEpisodeStatistics

import rookery
from conformance.compare import same
from conformance.worlds import Counter, GlobalDice, Sampler, WithState
from rookery.errors import StateError
from rookery.training.storage import checkpoint
from worlds.robots import Arm

CONTINUOUS = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"]
TABULAR = ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"]


def dressed(name):
    """Gymnasium's env in all its wrappers that remember something."""

    def build():
        env = RecordEpisodeStatistics(gym.make(name))
        if name in CONTINUOUS:
            env = NormalizeReward(NormalizeObservation(env))
        return FrameStackObservation(env, 3)

    build.__name__ = name
    return build


def through_a_file(state, folder):
    checkpoint.save(folder, {"envs": state})
    return checkpoint.load(folder)["envs"]


def numbers(result):
    """Observations, rewards, flags, and what was counted; no seconds."""
    *arrays, infos = result
    episode = infos.get("episode", {})
    return arrays, episode.get("r"), episode.get("l")


def check_continuation(make, world, folder, num_envs=3, before=50, after=100, **options):
    """Save after `before` steps; a fresh engine on the same backend and one in series continue from there exactly."""
    envs = make(world, num_envs, **options)
    envs.reset(seed=4)
    envs.action_space.seed(1)
    actions = [envs.action_space.sample() for _ in range(before + after)]
    for action in actions[:before]:
        last, *_ = envs.step(action)
    envs.finished_episodes()
    state = through_a_file(envs.state_dict(portable=True), folder)
    expected = [numbers(envs.step(action)) for action in actions[before:]]
    episodes = envs.finished_episodes()
    for other in (make(world, num_envs, **options), rookery.make_vec(world, num_envs, backend="serial", **options)):
        assert same(other.load_state_dict(state), last)
        assert same([numbers(other.step(action)) for action in actions[before:]], expected)
        mine = other.finished_episodes()
        assert all(same(mine[name], episodes[name]) for name in ("env", "return", "length"))
        other.close()


@pytest.mark.parametrize("backend", ["serial", "process"])  # in threads envs are saved as in series
@pytest.mark.parametrize("name", CONTINUOUS + TABULAR)
def test_gymnasium_envs_continue_exactly(make, name, tmp_path):
    """The state of the env, of its generator, its time limit, its statistics and the frames before."""
    check_continuation(make, dressed(name), tmp_path / "state")


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_an_end_of_episode_in_between_is_no_exception(make, mode, tmp_path):
    """Envs that wait for their reset when the state is saved get it after it was loaded."""
    check_continuation(make, lambda: Counter(length=5), tmp_path / "state", before=5, after=20, autoreset_mode=mode)


@pytest.mark.parametrize("world", [WithState, lambda: Sampler("text"), lambda: Sampler("nested")])
def test_other_envs_continue_exactly(make, world, tmp_path):
    """Envs that give their own state, observations that are not arrays, nested ones."""
    check_continuation(make, world, tmp_path / "state", before=7, after=30)


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_private_copies_of_global_generators_continue_exactly(make, tmp_path):
    """Each env has its own `random` and `numpy.random`."""
    check_continuation(make, GlobalDice, tmp_path / "state", before=7, after=30)


class Colour(enum.Enum):
    RED, BLUE = 1, 2


Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Piece:
    place: np.ndarray
    colour: Colour


class Slotted:
    __slots__ = ("count", "mates")

    def __init__(self):
        self.count, self.mates = 0, []


class Hoarder(gym.Env):
    """Keeps its state in everything that Python offers."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.pieces = [Piece(np.zeros(2), Colour.RED), Piece(np.ones(2), Colour.BLUE)]
        self.slotted = Slotted()
        self.slotted.mates.append(self.slotted)  # a circle
        self.me, self.alias, self.maker = self, self.pieces[0], lambda: 3
        self.python, self.legacy = random.Random(3), np.random.RandomState(4)
        self.generator = np.random.Generator(np.random.SFC64(5))
        self.shared = self.generator
        self.table = {(1, 2): np.float32(3), "a": {"b": {frozenset({1})}}, 4: None}
        self.ordered, self.lazy, self.tally = OrderedDict(z=1), defaultdict(list), MatchScore()
        self.recent, self.seen, self.raw = deque([1.5, np.zeros(1)], maxlen=3), {1}, bytearray(b"\x00")
        self.point, self.where, self.span, self.big = Point(0, [1]), Path("data"), range(3), 2**200
        self.odd = [float("nan"), float("-inf"), -0.0]
        self.labels = np.array(["one", None, 3], object)
        self.mode, self.word = Colour.RED, np.str_("word")
        self.record = np.zeros(2, np.dtype([("x", "f4"), ("y", "u1")], align=True))
        self.odd_arrays = [np.array([b"a", b"bc"]), np.array(["ä"]), np.zeros((0, 3)), np.array(1j), np.zeros(2, ">i4")]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(4), {}

    def step(self, action):
        self.t += 1
        self.slotted.mates[0].count += 1
        self.me.alias.place[:] += self.python.random()
        self.lazy[self.t % 3].append(self.t)
        self.tally[self.t % 2] += 1
        self.seen.add(self.t % 7)
        self.raw += bytes([self.t % 256])
        self.recent.append(self.shared.normal())
        self.point = Point(self.t, [self.legacy.rand()])
        self.big += self.t
        self.mode = Colour.BLUE if self.t % 2 else Colour.RED
        self.table["a"]["b"].add((self.t,))
        self.labels[1] = self.t
        self.record["x"] += 0.1
        total = len(self.table["a"]["b"]) + len(self.raw) + self.tally[1] + sum(map(len, self.lazy.values()))
        observation = [
            self.pieces[0].place[0],
            self.generator.normal(),
            self.slotted.count,
            total + self.record[1]["x"],
        ]
        reward = self.mode.value + self.point.x + len(self.seen) + self.labels[1] + self.big % 1009
        return np.array(observation), float(reward), False, self.t % 40 == 0, {}


def test_all_of_pythons_values_are_written_down(make, tmp_path):
    """Objects, circles, shared references, sets, generators of every kind, and integers of any size."""
    check_continuation(make, Hoarder, tmp_path / "state", num_envs=2, before=30, after=60)


class Holding(Counter):
    def __init__(self, what):
        super().__init__()
        self.thing = what


class Nested:
    def __init__(self):
        self.inside = iter([1])


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda: iter([1]), "attribute `thing` of Holding is a list_iterator, which cannot be saved as arrays; give"),
        (Nested, r"attribute `thing` of Holding is a Nested, which.*\(it holds a list_iterator\); give"),
        (lambda: np.array([iter([1])], object), r"attribute `thing` of Holding is a ndarray.*holds a list_iterator"),
    ],
)
def test_what_cannot_be_written_is_named(make, what, message):
    """Before anything is saved: which attribute, of which class, and what to do."""
    envs = make(lambda: Holding(what()), 2)
    envs.reset(seed=1)
    with pytest.raises(StateError, match=message):
        envs.state_dict(portable=True)
    envs.step([0, 0])


def test_libraries_in_c_are_not_taken_for_python_objects():
    """A box2d or mujoco world looks like an object without attributes, and is none."""
    envs = rookery.make_vec("InvertedPendulum-v5", 1, backend="serial")
    envs.reset(seed=1)
    with pytest.raises(StateError, match=r"attribute `(model|data)` of InvertedPendulumEnv is a Mj(Model|Data)"):
        envs.state_dict(portable=True)
    envs.close()


def test_arrays_that_share_memory_are_refused():
    """Restored, a view would no longer follow what it was a view of."""

    class Viewer(Counter):
        def __init__(self):
            super().__init__()
            self.view = self.buffer[:1]

    envs = rookery.make_vec(Viewer, 1, backend="serial")
    envs.reset(seed=1)
    with pytest.raises(StateError, match="arrays of Viewer share memory"):
        envs.state_dict(portable=True)


def test_another_env_is_refused():
    """A state goes to the env and the wrappers that it came from."""
    saved, other = rookery.make_vec("CartPole-v1", 2, "serial"), rookery.make_vec("Acrobot-v1", 2, "serial")
    saved.reset(seed=1), other.reset(seed=1)
    with pytest.raises(StateError, match=r"saved of CartPoleEnv in .*, this env is AcrobotEnv in"):
        other.load_state_dict(saved.state_dict(portable=True))


def test_pictures_are_not_saved(tmp_path):
    """An env that draws can be saved, and continues drawing."""
    envs = rookery.make_vec("CartPole-v1", 1, "serial", env_kwargs={"render_mode": "rgb_array"})
    envs.reset(seed=1)
    before = envs.render()[0]
    envs.load_state_dict(through_a_file(envs.state_dict(portable=True), tmp_path / "state"))
    assert np.array_equal(envs.render()[0], before)
    envs.close()


@pytest.mark.push("serial-rookery/CartPole-v1", "kernel-rookery/CartPole-v1")
@pytest.mark.parametrize("world", ["rookery/CartPole-v1", "rookery/Acrobot-v1", Arm], ids=str)
@pytest.mark.parametrize("backend", ["kernel", "serial"])
def test_kernel_worlds_continue_exactly(world, backend, tmp_path):
    """Their state is arrays already."""

    def make(world, num_envs, **options):
        return rookery.make_vec(world, num_envs, **({"backend": backend} | options))

    envs, other = make(world, 3), make(world, 3)
    envs.reset(seed=2)
    envs.action_space.seed(1)
    actions = [envs.action_space.sample() for _ in range(90)]
    for action in actions[:40]:
        envs.step(action)
    other.load_state_dict(through_a_file(envs.state_dict(portable=True), tmp_path / "state"))
    for action in actions[40:]:
        assert same(numbers(envs.step(action)), numbers(other.step(action)))


def test_counts_of_restarts_go_along(tmp_path):
    """They decide the seeds of the next ones."""
    envs = rookery.make_vec("CartPole-v1", 3, "serial")
    envs.reset(seed=1)
    envs._restarts.next_seed(2)
    other = rookery.make_vec("CartPole-v1", 3, "serial")
    other.load_state_dict(through_a_file(envs.state_dict(portable=True), tmp_path / "state"))
    assert other._restarts.next_seed(2) == envs._restarts.next_seed(2)
