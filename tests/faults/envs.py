"""Envs that misbehave on demand. Most are told to by an action, so that one env can fail while the others do not."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Act(IntEnum):
    """Actions of `Walk`: two that walk, the rest that do harm."""

    LEFT = 0
    RIGHT = 1
    SIGKILL = 10
    SLEEP = 11
    SPIN = 12
    OS_EXIT = 13
    SEGFAULT = 14
    HOLD_GIL = 15
    RAISE = 16
    SLOW = 17
    REAL_TIME_SIGNAL = 18
    UNLOADABLE_INFO = 19
    DIE_TELLING = 20
    HANG_TELLING = 21


LAST_ACT = 22
SLOW_SECONDS = 0.5


def do(act: int) -> None:
    """Carry out a harmful action, inside whatever process the env lives in."""
    if act == Act.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif act == Act.SLEEP:
        time.sleep(1000)
    elif act == Act.SPIN:
        while True:
            pass
    elif act == Act.OS_EXIT:
        os._exit(3)
    elif act == Act.SEGFAULT:
        faulthandler.disable()  # pytest's, in a forked worker: its long dump would be no news
        os.kill(os.getpid(), signal.SIGSEGV)
    elif act == Act.HOLD_GIL:
        ctypes.PyDLL(None).sleep(1000)  # PyDLL keeps the GIL: no Python thread of this process runs in the meantime
    elif act == Act.RAISE:
        raise RuntimeError("told to raise")
    elif act == Act.SLOW:
        time.sleep(SLOW_SECONDS)
    elif act == Act.REAL_TIME_SIGNAL:
        os.kill(os.getpid(), 40)


class Walk(gym.Env):
    """A random walk of a few steps whose every number depends on its seed and actions; harmful actions do harm."""

    observation_space = spaces.Box(-1e6, 1e6, (3,), np.float32)
    action_space = spaces.Discrete(LAST_ACT)

    def __init__(self, talkative: bool = False) -> None:
        self.talkative = talkative

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.position, self.steps = self.np_random.uniform(-1, 1), 0
        self.length = int(self.np_random.integers(4, 9))
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        do(int(action))
        self.steps += 1
        self.position += float(action) - 0.5 + 0.1 * self.np_random.normal()
        info: dict[str, Any] = {"story": f"step {self.steps}"} if self.talkative else {}
        if action == Act.UNLOADABLE_INFO:
            info["problem"] = Unloadable("a", "b")
        if action in (Act.DIE_TELLING, Act.HANG_TELLING):
            info["bomb"] = Bomb(Act.SIGKILL if action == Act.DIE_TELLING else Act.SLEEP)
        return self.observe(), self.position, self.steps >= self.length, False, info

    def observe(self) -> np.ndarray:
        return np.array([self.position, self.steps, self.length], np.float32)


class Bomb:
    """Does harm when it is pickled: after the step is done, before its report is sent."""

    def __init__(self, act: int) -> None:
        self.act = act

    def __reduce__(self) -> tuple:
        do(self.act)
        return Bomb, (self.act,)


# --- exceptions that are hard to carry ------------------------------------------------------------------------------


class Unloadable(Exception):
    """Pickles, and cannot be unpickled: its constructor wants more than `args` holds."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")
        self.first, self.second = first, second


class Plain(Exception):
    """A custom class with the usual constructor."""


class WithLock(Exception):
    """Carries an attribute that no pickle can hold."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class Slotted(Exception):
    """Keeps what it knows in a slot."""

    __slots__ = ("detail",)

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.detail = message


class FixedIndex(Exception):
    """Has an attribute of the engine's name that cannot be set."""

    @property
    def env_index(self) -> int:
        return -7


class LostText(Exception):
    """Its text comes from an attribute that cannot travel."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self.holder = {"text": message, "lock": threading.Lock()}

    def __str__(self) -> str:
        return self.holder["text"]


class NoText(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Choosy(Exception):
    """Its `__new__` takes a keyword that nobody else knows."""

    def __new__(cls, *args: Any, secret: str) -> Choosy:
        return super().__new__(cls, *args)

    def __init__(self, *args: Any, secret: str) -> None:
        super().__init__(*args)


def raise_value_error() -> None:
    raise ValueError("a builtin went wrong")


def raise_plain() -> None:
    raise Plain("a custom class went wrong")


def raise_custom_constructor() -> None:
    raise Unloadable("this", "that")


def raise_with_lock() -> None:
    raise WithLock("a lock came along")


def raise_slotted() -> None:
    raise Slotted("kept in a slot")


def raise_fixed_index() -> None:
    raise FixedIndex("index is taken")


def raise_lost_text() -> None:
    raise LostText("the text is elsewhere")


def raise_no_text() -> None:
    raise NoText


def raise_choosy() -> None:
    raise Choosy("picky", secret="s")


def raise_os_error() -> None:
    Path("/nowhere/at/all").read_text()


def raise_unicode_error() -> None:
    b"\xff".decode("utf-8")


def raise_lambda_argument() -> None:
    raise ValueError("an argument that cannot travel", lambda: None)


def raise_chained() -> None:
    try:
        raise_value_error()
    except ValueError as error:
        raise Plain("a consequence") from error


def raise_system_exit() -> None:
    sys.exit("the env wants out")


def raise_keyboard_interrupt() -> None:
    raise KeyboardInterrupt("not from the keyboard")


class Raises(Walk):
    """Raises in one of `__init__`, `reset`, `step` (its second) and `close`."""

    def __init__(self, where: str, trouble: Callable[[], None]) -> None:
        super().__init__()
        self.where, self.trouble = where, trouble
        self._go_wrong("__init__")

    def _go_wrong(self, where: str) -> None:
        if self.where == where:
            self.trouble()

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self._go_wrong("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.steps == 1:
            self._go_wrong("step")
        return super().step(action)

    def close(self) -> None:
        self._go_wrong("close")


# --- envs that go wrong again and again -----------------------------------------------------------------------------


class Diary:
    """Counts events across processes: one line each in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str) -> int:
        with self.path.open("a") as file:
            file.write(f"{event}\n")
        return self.count(event)

    def count(self, event: str) -> int:
        return self.path.read_text().split().count(event) if self.path.exists() else 0


class Relapsing(Walk):
    """Fails in the same place every time: "step", "reset", "__init__" or "death" (in a step). Whoever builds it for
    the first time gets one that works until its first step."""

    def __init__(self, where: str, path: Path) -> None:
        super().__init__()
        self.where, self.diary = where, Diary(path)
        self.life = self.diary.write("built")
        if where == "__init__" and self.life > 1:
            raise RuntimeError(f"built {self.life} times")

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        if self.where == "reset" and self.life > 1:
            raise RuntimeError(f"reset in life {self.life}")
        if self.where == "reset hangs" and self.life > 1:
            time.sleep(1000)
        if self.where == "death in reset" and self.life > 1:
            do(Act.SIGKILL)
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.where.startswith("death"):
            self.diary.write("died")
            do(Act.SIGKILL)
        if self.where == "reset hangs":
            time.sleep(1000)
        raise RuntimeError(f"step in life {self.life}")


class FatalRebuild(Walk):
    """Raises in its first step; the attempt to build it again kills the worker, the one after that works."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.life = Diary(path).write("built")
        if self.life == 2:
            do(Act.SIGKILL)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.life == 1:
            raise RuntimeError("once")
        return super().step(action)


# --- bad values -----------------------------------------------------------------------------------------------------


class BadBox(Walk):
    """Returns `observation` (or `reward`) in place of its own at the second step of its first episode, or at its
    first reset. With `path` only the first env built is bad, so that the one that takes its place is good."""

    def __init__(
        self, observation: Any = None, reward: float | None = None, at_reset: bool = False, path: Path | None = None
    ) -> None:
        super().__init__()
        self.bad, self.bad_reward, self.at_reset, self.resets = observation, reward, at_reset, 0
        if path is not None and Diary(path).write("built") > 1:
            self.bad = self.bad_reward = None
            self.at_reset = False

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        observation, info = super().reset(seed=seed, options=options)
        self.resets += 1
        return (self.bad if self.at_reset and self.resets == 1 else observation), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.steps == 2 and self.resets == 1 and not self.at_reset:
            observation = observation if self.bad is None else self.bad
            reward = reward if self.bad_reward is None else self.bad_reward
        return observation, reward, terminated, truncated, info


class BadEnd(Walk):
    """Its last observation of an episode holds NaN."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated:
            observation[0] = np.nan
        return observation, reward, terminated, truncated, info


NESTED = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (2, 2), np.uint8),
        "body": spaces.Dict({"speed": spaces.Box(-np.inf, np.inf, (2,), np.float32), "gear": spaces.Discrete(5)}),
    }
)


def nested(**changes: Any) -> dict[str, Any]:
    """An observation in `NESTED`, with some leaves changed."""
    leaves = {"camera": np.full((2, 2), 7, np.uint8), "speed": np.ones(2, np.float32), "gear": np.int64(3), **changes}
    return {"camera": leaves["camera"], "body": {"speed": leaves["speed"], "gear": leaves["gear"]}}


class BadDict(gym.Env):
    """Nested observations; the second step returns `bad` if it is given."""

    observation_space, action_space = NESTED, spaces.Discrete(2)

    def __init__(self, bad: Any = None) -> None:
        self.bad = bad

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        self.steps = 0
        return nested(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.steps += 1
        good = self.bad is None or self.steps != 2
        return nested() if good else self.bad, 1.0, False, False, {}


class Huge(gym.Env):
    """Observations of 16 MiB, of which four thousand do not fit in any workstation."""

    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (16 * 1024 * 1024,), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        raise AssertionError("never reached")


# --- unusual but legal ----------------------------------------------------------------------------------------------


class Printing(Walk):
    """Prints to both streams."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        print("a word on stdout")
        print("a word on stderr", file=sys.stderr)
        return super().step(action)


class Forking(Walk):
    """Starts a child process at every reset: "fork" or "subprocess"; its pid is in the info. Nobody ends it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        observation, _ = super().reset(seed=seed, options=options)
        if self.way == "subprocess":
            return observation, {"child": subprocess.Popen(["sleep", "60"]).pid}
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        return observation, {"child": child}


class ForksAndWaits(Walk):
    """Has a child process do part of every step."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return super().step(action)


class Threading(Walk):
    """Keeps threads of its own, one of which is not a daemon and never ends."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=threading.Event().wait, daemon=False).start()
        self.beat = 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            self.beat += 1
            time.sleep(0.01)


class GlobalRandom(Walk):
    """Draws from the process-wide generators."""

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.position = random.random() + np.random.rand()
        self.length = random.randint(3, 7)
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        self.position += random.gauss(0, 1) + np.random.normal() + shuffled()
        return self.observe(), self.position, self.steps >= self.length, False, {}


def shuffled() -> int:
    """A draw outside the env's class."""
    items = list(range(10))
    random.shuffle(items)
    return items[0]


class Reusing(Walk):
    """Returns the same array every time, overwritten in place."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = np.zeros(3, np.float32)

    def observe(self) -> np.ndarray:
        self.buffer[:] = super().observe()
        return self.buffer


class SlowToClose(Walk):
    """Hangs in `close`."""

    def close(self) -> None:
        time.sleep(1000)


class Unhurried(Walk):
    """Takes its time for every step."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        time.sleep(0.4)
        return super().step(action)
