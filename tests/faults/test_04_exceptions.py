"""Fault 4: exceptions in `__init__`, `reset`, `step` and `close`, of classes that are hard to carry."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import rookery
from faults import envs as troubles
from faults.envs import Act, Raises, Walk
from faults.watch import BACKENDS, SPAWN_SELDOM, at_most, play, restarted, same_rows, undisturbed
from rookery.errors import EnvError

pytestmark = pytest.mark.timeout(90)
Make = Callable[..., rookery.Engine]
PLACES = ("__init__", "reset", "step", "close")


class Local(Exception):
    """Defined in a test module, with a constructor of its own."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"code {code}: {reason}")
        self.code, self.reason = code, reason


def raise_local() -> None:
    raise Local(7, reason="just because")


def provoke(make: Make, backend: str, where: str, trouble: Callable[[], None], index: int = 1) -> BaseException:
    """Have env `index` of three raise at one place, and catch it."""
    worlds: list[Callable] = [Walk, Walk, Walk]
    worlds[index] = partial(Raises, where, trouble)
    with at_most(5), pytest.raises(BaseException) as caught:
        engine = make(worlds, backend=backend, workers=1 if backend == "serial" else 2)
        engine.reset(seed=1)
        play(engine, 3)
        engine.close()
    assert not isinstance(caught.value, (pytest.fail.Exception, AssertionError))
    return caught.value


def told(error: BaseException) -> str:
    """All that a user would see."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_type_message_traceback_and_env(make: Make, backend: str, where: str, index: int) -> None:
    """Wherever it is raised, the original exception arrives with its message, its traceback and the env's number."""
    error = provoke(make, backend, where, troubles.raise_value_error, index)
    assert type(error) is ValueError
    assert str(error) == "a builtin went wrong"
    assert error.env_index == index
    assert f"env {index} in {where}()" in "\n".join(error.__notes__)
    assert "in raise_value_error" in told(error)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_exception_in_init_is_told_at_once(index: int) -> None:
    """make_vec raises as soon as an env cannot be built: no worker has to be waited for."""
    worlds: list[Callable] = [Walk, Walk, Walk]
    worlds[index] = partial(Raises, "__init__", troubles.raise_value_error)
    with at_most(2), pytest.raises(ValueError, match="a builtin"):
        rookery.make_vec(worlds, backend="process", workers=2, start_method="fork", close_timeout=20)


@pytest.mark.parametrize(
    ("trouble", "kind", "message"),
    [
        (troubles.raise_plain, troubles.Plain, "a custom class went wrong"),
        (troubles.raise_custom_constructor, troubles.Unloadable, "this and that"),
        (troubles.raise_with_lock, troubles.WithLock, "a lock came along"),
        (troubles.raise_slotted, troubles.Slotted, "kept in a slot"),
        (troubles.raise_os_error, FileNotFoundError, "/nowhere/at/all"),
        (troubles.raise_unicode_error, UnicodeDecodeError, "invalid start byte"),
        (troubles.raise_chained, troubles.Plain, "a consequence"),
        (raise_local, Local, "code 7: just because"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_original_type_arrives(
    make: Make, backend: str, trouble: Callable[[], None], kind: type[BaseException], message: str
) -> None:
    """Classes with constructors, attributes or arguments that resist pickling still arrive as themselves."""
    error = provoke(make, backend, "step", trouble)
    assert type(error) is kind
    assert message in str(error)
    assert error.env_index == 1
    assert trouble.__name__ in told(error)
    assert "env 1 in step()" in told(error)


@pytest.mark.parametrize(
    ("trouble", "name", "message"),
    [
        (troubles.raise_lost_text, "LostText", "the text is elsewhere"),
        (troubles.raise_choosy, "Choosy", "picky"),
        (troubles.raise_lambda_argument, "ValueError", "an argument that cannot travel"),
        (troubles.raise_no_text, "NoText", ""),
        (troubles.raise_fixed_index, "FixedIndex", "index is taken"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_cannot_be_rebuilt_is_told(
    make: Make, backend: str, trouble: Callable[[], None], name: str, message: str
) -> None:
    """An exception that cannot be rebuilt becomes an EnvError with its name, message and traceback; none is lost."""
    error = provoke(make, backend, "step", trouble)
    assert isinstance(error, EnvError) or type(error).__name__ == name
    assert name in told(error)
    assert message in told(error)
    assert trouble.__name__ in told(error)
    assert "env 1 in step()" in told(error)


def test_attributes_come_along(make: Make) -> None:
    """What an exception carries besides its message is there, as far as it can travel."""
    error = provoke(make, "process", "step", raise_local)
    assert isinstance(error, Local)
    assert (error.code, error.reason) == (7, "just because")
    assert not hasattr(provoke(make, "process", "step", troubles.raise_with_lock), "lock")


@pytest.mark.parametrize("method", SPAWN_SELDOM[:2])
def test_a_class_from_inside_a_function_is_still_caught_by_name(make: Make, method: str) -> None:
    """An exception class of a notebook or function, which no worker can import, comes back as that very class."""

    class Homemade(Exception):
        pass

    def trouble() -> None:
        raise Homemade("made at home")

    worlds = [Walk, partial(Raises, "step", trouble)]
    engine = make(worlds, backend="process", workers=2, start_method=method)
    engine.reset(seed=1)
    with pytest.raises(Homemade, match="made at home"):
        play(engine, 3)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_system_exit_does_not_end_the_program(make: Make, backend: str, where: str) -> None:
    """An env that calls sys.exit gets an EnvError that says so, not the end of the training program."""
    error = provoke(make, backend, where, troubles.raise_system_exit)
    assert type(error) is EnvError
    assert "SystemExit: the env wants out" in str(error)
    assert error.env_index == 1


def test_keyboard_interrupt_in_a_worker_is_an_env_error(make: Make) -> None:
    """In a worker, which Ctrl-C does not reach, a KeyboardInterrupt is the env's own."""
    error = provoke(make, "process", "step", troubles.raise_keyboard_interrupt)
    assert type(error) is EnvError
    assert "KeyboardInterrupt" in str(error)


@pytest.mark.alone
@pytest.mark.parametrize("policy", ["raise", "restart"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_is_never_swallowed(make: Make, backend: str, policy: str) -> None:
    """A real Ctrl-C while envs step reaches the program as KeyboardInterrupt, also where failures are mended."""
    engine = make(Walk, 2, backend, 2 if backend == "process" else 1, on_failure=policy)
    engine.reset(seed=1)
    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        play(engine, 1, {(0, 1): Act.SLOW})
    interrupt.join()
    with at_most(3):
        engine.close()


class Leisurely(Walk):
    """Takes its time for everything but steps."""

    def reset(self, **options: Any) -> Any:
        time.sleep(getattr(self, "pause", 0.0))
        return super().reset(**options)

    def muse(self) -> None:
        time.sleep(self.pause)


@pytest.mark.alone
@pytest.mark.parametrize("asked", ["reset", "call"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_is_not_swallowed_by_what_is_not_a_step(make: Make, backend: str, asked: str) -> None:
    """Nor taken for an env's failure and restarted: an engine with on_failure="restart" continues afterwards."""
    engine = make(Leisurely, 2, backend, 1 if backend == "serial" else 2, on_failure="restart")
    engine.reset(seed=1)
    engine.set_attr("pause", 0.6)
    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        engine.reset(seed=1) if asked == "reset" else engine.call("muse")
    interrupt.join()
    engine.set_attr("pause", 0.0)
    engine.reset(seed=1)
    assert same_rows(play(engine, 3), undisturbed(Walk, 2, 3, seed=1), [0, 1])
    assert engine.restarts == 0


class Weighty(Walk):
    """Gives and takes what no socket holds at once."""

    def picture(self) -> np.ndarray:
        return np.zeros(20_000_000, np.uint8)

    def look(self, picture: np.ndarray) -> int:
        return len(picture)


@pytest.mark.alone
@pytest.mark.parametrize("way", ["out", "in"])
@pytest.mark.parametrize("delay", [0.005, 0.01, 0.02, 0.03, 0.05])
def test_ctrl_c_in_the_middle_of_a_long_message(make: Make, way: str, delay: float) -> None:
    """Neither half a question nor half an answer is left behind: the next step is like any other."""
    engine = make(Weighty, 2, "process", 2)
    engine.reset(seed=1)
    picture = np.zeros(20_000_000, np.uint8)
    interrupt = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        while True:
            engine.call("picture") if way == "in" else engine.call("look", picture)
    interrupt.join()
    assert same_rows(play(engine, 3), undisturbed(Weighty, 2, 3, seed=1), [0, 1])
    assert engine.call("look", picture[:5]) == (5, 5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_others_continue_after_an_exception(make: Make, backend: str) -> None:
    """An engine is usable after an env raised: the step counted for all others, and the next one works."""
    engine = make(Walk, 4, backend, 1 if backend == "serial" else 2)
    engine.reset(seed=1)
    results = play(engine, 2)
    with pytest.raises(RuntimeError, match="told to raise"):
        play(engine, 1, {(2, 1): Act.RAISE}, first=2)
    expected = undisturbed(Walk, 4, 8, seed=1)
    assert same_rows(results, expected[:2], [0, 2, 3])
    assert same_rows(play(engine, 5, first=3), expected[3:], [0, 2, 3])


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_restart_replaces_the_one_env_that_raised(make: Make, backend: str, mode: str) -> None:
    """With on_failure="restart" only the env that raised is restarted; its worker's other envs are not touched."""
    engine = make(Walk, 4, backend, 1 if backend == "serial" else 2, on_failure="restart", autoreset_mode=mode)
    engine.reset(seed=1)
    results = play(engine, 8, {(2, 1): Act.RAISE})
    assert restarted(results[2][4]) == [1]
    assert results[2][3][1]
    assert same_rows(results, undisturbed(Walk, 4, 8, seed=1, autoreset_mode=mode), [0, 2, 3])


def test_restart_is_the_same_on_every_backend(make: Make) -> None:
    """What a restarted env does next depends on the seed alone, not on the backend."""
    plays = []
    for backend in BACKENDS:
        engine = make(Walk, 4, backend, 1 if backend == "serial" else 2, on_failure="restart")
        engine.reset(seed=1)
        plays.append(play(engine, 12, {(2, 1): Act.RAISE}))
    assert same_rows(plays[0], plays[1], [0, 1, 2, 3])
    assert same_rows(plays[0], plays[2], [0, 1, 2, 3])


def test_an_exception_in_close_does_not_keep_others_open(make: Make) -> None:
    """close() ends all workers, raises what the first env to fail raised; the second call does nothing."""
    engine = make([partial(Raises, "close", troubles.raise_value_error)] * 3, backend="process", workers=3)
    with pytest.raises(ValueError, match="a builtin"):
        engine.close()
    assert engine.closed
    engine.close()


@pytest.mark.parametrize("policy", ["raise", "restart"])
def test_an_info_that_cannot_be_loaded_is_an_error_of_that_env(make: Make, policy: str) -> None:
    """Info that pickles in the worker but does not unpickle here is reported with its env; the engine continues."""
    engine = make(Walk, 2, "process", 2, on_failure=policy)
    engine.reset(seed=1)
    if policy == "restart":
        with at_most(5):
            assert restarted(play(engine, 1, {(0, 1): Act.UNLOADABLE_INFO})[0][4]) == [1]
    else:
        with at_most(5), pytest.raises(Exception, match=r"problem|info|Unloadable") as caught:
            play(engine, 1, {(0, 1): Act.UNLOADABLE_INFO})
        assert caught.value.env_index == 1
    with at_most(5):
        assert np.isfinite(play(engine, 2, first=1)[-1][0]).all()
