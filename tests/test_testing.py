"""`check_world` finds each fault that is planted, and none where there is none."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.errors import OptionError, WorldError
from rookery.testing import WorldReport, check_world
from rookery.tools import kernel_checks

pytestmark = pytest.mark.usefixtures("short_checks")


class Sound(gym.Env):
    """A world without fault: a walk in the plane. Faults are planted by overriding a part."""

    observation_space: gym.Space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space: gym.Space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        super().reset(seed=seed)
        self.time, self.at = 0, self.np_random.uniform(-0.1, 0.1, 2)
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.at = np.clip(self.at + self.np_random.normal(0, 0.05, 2), -1, 1)
        return self.observe(), self.reward(), self.over(), False, self.info()

    def observe(self) -> Any:
        return self.at.astype(np.float32)

    def reward(self) -> Any:
        return 1.0

    def over(self) -> Any:
        return self.time >= 30

    def info(self) -> Any:
        return {}


def only_problem(world: Any, **options: Any) -> str:
    report = check_world(world, **options)
    assert not report.ok
    assert len(report.problems) == 1, report
    return report.problems[0]


def advice(world: Any) -> str:
    report = check_world(world)
    assert report.ok, report
    return "\n".join(report.advice)


# --- sound worlds -----------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("world", [Sound, lambda: Sound(), "CartPole-v1", "Blackjack-v1", "Pendulum-v1"])
def test_sound_worlds_have_no_problems(world):
    """Classes, lambdas and Gymnasium's own envs pass, and their speed is told."""
    report = check_world(world)
    assert report.problems == []
    assert report.ok
    assert report.steps_per_second > 100
    assert report.reset_seconds > 0
    report.raise_if_bad()


def test_nested_and_object_spaces_pass():
    """Dict, Tuple and Text observations are looked at leaf by leaf."""

    class Nested(Sound):
        observation_space = gym.spaces.Dict(
            {
                "at": gym.spaces.Box(-1, 1, (2,), np.float32),
                "more": gym.spaces.Tuple((gym.spaces.Discrete(31), gym.spaces.Text(5))),
            }
        )

        def observe(self) -> Any:
            return {"at": self.at.astype(np.float32), "more": (self.time, "hello")}

    assert check_world(Nested).problems == []


def test_an_instance_is_accepted_and_stays_open():
    """An env at hand can be checked; what needs a second one is left out, and it is not closed."""

    class Open(Sound):
        closed = False

        def close(self) -> None:
            self.closed = True

    env = Open()
    report = check_world(env)
    assert report.ok
    assert report.world == "Open"
    assert "an instance was given" in "\n".join(report.advice)
    assert not env.closed


def test_the_callers_random_numbers_are_left_alone():
    """Checking a world that uses the global generators does not move the caller's own."""

    class Global(Sound):
        def reward(self) -> float:
            return random.random() + float(np.random.rand())

    random.seed(1), np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1), np.random.seed(1)
    check_world(Global)
    assert (random.random(), np.random.rand()) == expected


def test_it_is_part_of_the_package():
    """`rookery.testing.check_world` is there without a further import."""
    assert rookery.testing.check_world is check_world


# --- planted faults: values -------------------------------------------------------------------------------------


class WrongDtype(Sound):
    def observe(self) -> Any:
        return self.at.astype(np.int64)


class WrongShape(Sound):
    def observe(self) -> Any:
        return np.zeros(3, np.float32)


class OutOfBounds(Sound):
    def observe(self) -> Any:
        return np.full(2, 0.5 if self.time < 7 else 1.5, np.float32)


class NotANumberSeen(Sound):
    def observe(self) -> Any:
        return np.full(2, 0.5 if self.time < 7 else np.nan, np.float32)


class NotANumberReward(Sound):
    def reward(self) -> Any:
        return float("nan")


class ArrayReward(Sound):
    def reward(self) -> Any:
        return np.ones(1)


class NoReward(Sound):
    def reward(self) -> Any:
        return None


class IntegerEnd(Sound):
    def over(self) -> Any:
        return int(self.time >= 30)


class ListInfo(Sound):
    def info(self) -> Any:
        return []


class LockInInfo(Sound):
    def info(self) -> Any:
        return {"lock": threading.Lock()}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("world", "words"),
    [
        (WrongDtype, "reset(): observation should be of shape (2,) and dtype float32"),
        (WrongShape, "got shape (3,)"),
        (OutOfBounds, "step() number 6: observation[0] is 1.5, outside its space [-1.0, 1.0]"),
        (NotANumberSeen, "step() number 6: observation[0] is nan"),
        (NotANumberReward, "step() number 0: reward is nan"),
        (ArrayReward, "reward should be a number, got ndarray of shape (1,)"),
        (NoReward, "reward should be a number, got None (NoneType)"),
        (IntegerEnd, "terminated should be a bool, got 0 (int)"),
        (ListInfo, "info should be a dict, got list"),
        (LockInInfo, "info cannot be sent between processes"),
    ],
)
def test_bad_values_are_found_once(world, words):
    """A value that is not as declared is reported with the call it came from, once however often it occurs."""
    assert words in only_problem(world)


# --- planted faults: the interface ------------------------------------------------------------------------------


class FourValues(Sound):
    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


class BareReset(Sound):
    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0]


class NoSeed(Sound):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class NoSpace(Sound):
    action_space = 4  # type: ignore[assignment]


class CannotBeBuilt(Sound):
    def __init__(self) -> None:
        raise RuntimeError("the licence has expired")


class Raises(Sound):
    def reward(self) -> Any:
        return 1 / (4 - self.time)


class BadClose(Sound):
    def close(self) -> None:
        raise OSError("already closed")


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (FourValues, "got a tuple of 4; four values are the API of gym before 0.26"),
        (BareReset, "reset() should return (observation, info), got ndarray of shape (2,)"),
        (NoSeed, "reset(seed=...) raised TypeError"),
        (NoSpace, "action_space should be a gymnasium Space, got 4"),
        (CannotBeBuilt, "the env cannot be built: RuntimeError: the licence has expired"),
        (Raises, "step() number 3 raised ZeroDivisionError"),
        (BadClose, "close() raised OSError: already closed"),
        (lambda: 3, "should build a gymnasium.Env"),
    ],
)
def test_a_broken_interface_is_one_problem(world, words):
    """What does not answer as Gymnasium asks is reported as a problem, and never raised."""
    assert words in only_problem(world)


def test_the_place_of_an_error_is_told():
    """An exception is reported with the file and line that raised it."""
    assert "(test_testing.py:" in only_problem(Raises)


class SampleFails(Sound):
    class Space(gym.spaces.Discrete):
        def sample(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError("no sample")

    action_space = Space(3)


class NoCopies(Sound):
    class Array(np.ndarray):
        def __deepcopy__(self, memo: Any) -> Any:
            raise ValueError("no copies")

    def observe(self) -> Any:
        return super().observe().view(self.Array)


class NoMessage(Sound):
    class Fault(Exception):
        def __str__(self) -> str:
            raise ValueError("no message")

    def reward(self) -> Any:
        raise self.Fault


class ExitsInInit(Sound):
    def __init__(self) -> None:
        sys.exit("no licence")


class ExitsInStep(Sound):
    def reward(self) -> Any:
        sys.exit(3)


class ExitsInClose(Sound):
    def close(self) -> None:
        sys.exit(4)


class NoRender(Sound):
    render_mode = "rgb_array"

    def render(self) -> Any:
        raise ValueError("no screen")


class NoState(Sound):
    def get_state(self) -> Any:
        raise ValueError("no state")

    def set_state(self, state: Any) -> None:
        pass


class NoRestore(NoState):
    def get_state(self) -> Any:
        return 1

    def set_state(self, state: Any) -> None:
        raise ValueError("no way back")


class Counts(Sound):
    """Counts its steps and resets, in all episodes."""

    steps = resets = 0

    def reset(self, **kwargs: Any) -> Any:
        self.resets += 1
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.steps += 1
        return super().step(action)


class RaisesLate(Counts):
    def reward(self) -> Any:
        if self.steps == 700:
            raise ValueError("late")
        return 1.0


class ResetRaisesLate(Counts):
    def reset(self, **kwargs: Any) -> Any:
        if self.resets == 25:
            raise ValueError("late")
        return super().reset(**kwargs)


class NotANumberLate(Counts):
    def observe(self) -> Any:
        return np.full(2, np.nan if self.steps == 700 else 0.5, np.float32)


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (SampleFails, "action_space.sample() raised ValueError: no sample (test_testing.py:"),
        (NoCopies, "raised ValueError: no copies"),
        (NoMessage, "step() number 0 raised Fault: its message cannot be shown"),
        (ExitsInInit, "the env cannot be built: SystemExit: no licence"),
        (ExitsInStep, "step() number 0 raised SystemExit: 3"),
        (ExitsInClose, "close() raised SystemExit: 4"),
        (NoRender, "render() with render_mode 'rgb_array' raised ValueError: no screen"),
        (NoState, "saving the env's state raised ValueError: no state"),
        (NoRestore, "restoring the env's saved state raised ValueError: no way back"),
        (RaisesLate, "while its speed was measured raised ValueError: late"),
        (ResetRaisesLate, "while its speed was measured raised ValueError: late"),
        (NotANumberLate, "while its speed was measured: observation[0] is nan"),
    ],
)
def test_whatever_an_env_raises_is_a_problem_with_its_place(world, words):
    """In no part of the check does an exception of the env end it."""
    assert words in only_problem(world)


def test_ctrl_c_ends_a_check():
    """Within this process a KeyboardInterrupt is the user's."""

    class Interrupted(Sound):
        def reward(self) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_world(Interrupted)


# --- planted faults: determinism --------------------------------------------------------------------------------


class Clockwork(Sound):
    """Keeps something outside the env, so that a second env differs from the first."""

    built = 0

    def __init__(self) -> None:
        type(self).built += 1
        self.number = type(self).built

    def reward(self) -> Any:
        return float(self.number)


class Forgetful(Sound):
    """Does not seed its own generator again."""

    def __init__(self) -> None:
        self.own = np.random.Generator(np.random.PCG64(3))

    def reward(self) -> Any:
        return self.own.random()


def test_envs_that_differ_are_found():
    """Two fresh envs that part ways with the same seed are told apart, with the first difference."""
    assert "two envs with the same seed and actions differ: the reward" in only_problem(Clockwork)


def test_a_seed_that_does_not_rule_is_found():
    """An env that does not return to the same trajectory after reset(seed) is found."""
    assert "on the same env gives another trajectory the second time: the reward" in only_problem(Forgetful)


class LosesItsPlace(Sound):
    """Saves a state that is not the whole of it."""

    def get_state(self) -> Any:
        return 0

    def set_state(self, state: Any) -> None:
        self.time, self.at = state, np.zeros(2)


def test_a_state_that_is_not_all_is_found():
    """An env restored from its own saved state must go on as the original does."""
    assert "the state is incomplete" in only_problem(LosesItsPlace)


def test_a_maker_that_cannot_travel_is_found():
    """A builder that holds a lock cannot be sent to worker processes."""
    lock = threading.Lock()
    assert "the env cannot be sent to worker processes" in only_problem(lambda: Sound() if lock else None)


# --- advice -----------------------------------------------------------------------------------------------------


class OneBuffer(Sound):
    """Hands out the same array again and again."""

    def __init__(self) -> None:
        self.buffer = np.zeros(2, np.float32)

    def observe(self) -> Any:
        self.buffer[:] = self.at
        return self.buffer


class PythonRandom(Sound):
    def reward(self) -> Any:
        return random.random()


class NumpyRandom(Sound):
    def reward(self) -> Any:
        return np.random.rand()


class Greedy(Sound):
    """Writes into the action it is given."""

    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action: Any) -> Any:
        action *= 0.5
        return super().step(action)


class CannotBeSaved(Sound):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Endless(Sound):
    def over(self) -> Any:
        return False


class DoubleObservation(Sound):
    def observe(self) -> Any:
        return self.at.astype(np.float32) if self.time == 0 else self.at


class ChangingInfo(Sound):
    def info(self) -> Any:
        return {"place": 1 if self.time % 2 else "home"}


class ChangingNestedInfo(Sound):
    def info(self) -> Any:
        return {"more": {"seen": np.zeros(self.time)}}


class EndlessInfoKeys(Counts):
    def info(self) -> Any:
        return {f"step_{self.steps}": 1.0}


class Windowed(Sound):
    render_mode = "human"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("world", "words"),
    [
        (OneBuffer, "observations share one buffer"),
        (PythonRandom, "uses the global generator random."),
        (NumpyRandom, "uses the global generator numpy.random."),
        (Greedy, "step() changes the action that it gets"),
        (CannotBeSaved, "the state cannot be saved"),
        (Endless, "no episode ended in a trial of "),
        (DoubleObservation, "step() number 0: observation is float64, its space float32: it is cast in every step"),
        (ChangingInfo, "step() number 1: info['place'] is of type str, and was a number before"),
        (ChangingNestedInfo, "info['more']['seen'] is an array of shape (2,), and was an array of shape (1,) before"),
        (EndlessInfoKeys, "infos have had more than 100 different keys"),
        (Windowed, "do not render while training"),
    ],
)
def test_what_could_be_better_is_advice(world, words):
    """What rookery can live with is not a problem, but is told."""
    assert words in advice(world)


@pytest.mark.parametrize(
    ("step", "reset", "words"),
    [(5e-6, 1e-5, ["give each worker many envs"]), (1e-3, 1.0, ["as long as 1,000 steps"]), (1e-3, 1e-3, [])],
)
def test_what_takes_long_is_advice(step, reset, words):
    """By times that are given: those of a busy machine would say something else."""
    report = WorldReport("a world", steps=1, reset_seconds=reset)
    kernel_checks.advise_on_times(step, report)
    assert [word in told for word, told in zip(words, report.advice, strict=True)] == [True] * len(words)


class OneStep(gym.Env):
    """Nearly all that its episodes take is Python's own time, between the calls."""

    observation_space = gym.spaces.Text(5)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        return "a", {}

    def step(self, action: Any) -> Any:
        return "b", 0.0, True, False, {}


def test_infos_that_are_integers_and_floats_are_numbers():
    class Score(Sound):
        def info(self) -> Any:
            return {"score": 0 if self.time % 2 else 0.5}

    assert "info[" not in advice(Score)


def test_the_speed_of_tiny_episodes_is_measured():
    """There are a hundred thousand of them: what a measurement adds to each must not grow with their number."""
    report = check_world(OneStep)
    assert report.ok and report.steps_per_second > 0


def test_the_measurement_of_speed_ends_whatever_steps_take(monkeypatch):
    monkeypatch.setattr(kernel_checks, "SPEED_SECONDS", float("inf"))
    monkeypatch.setattr(kernel_checks, "SPEED_WALL_SECONDS", 0.05)
    assert check_world(OneStep).steps_per_second > 0


# --- the report -------------------------------------------------------------------------------------------------


def test_several_faults_are_all_listed():
    """Independent faults are found in one go."""

    class Twice(NotANumberReward, IntegerEnd):
        pass

    assert len(check_world(Twice).problems) == 2


def test_raise_if_bad_lists_all_problems():
    """`raise_if_bad` raises a WorldError whose message is the whole report."""
    report = WorldReport("MyEnv", 200, ["reward is nan", "info is a list"], ["copy it"])
    with pytest.raises(WorldError) as error:
        report.raise_if_bad()
    assert str(error.value).splitlines() == [
        "MyEnv: 2 problems in 200 steps",
        "  problem: reward is nan",
        "  problem: info is a list",
        "  advice: copy it",
    ]


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_steps_must_be_a_positive_integer(steps):
    """A number of steps that cannot be taken is rejected."""
    with pytest.raises(OptionError, match="steps should be a positive integer"):
        check_world(Sound, steps=steps)


def test_an_unknown_world_is_refused():
    """What is not a world at all is an error, not a report."""
    with pytest.raises(WorldError, match="is not a registered Gymnasium id"):
        check_world("NoSuchWorld-v0")
