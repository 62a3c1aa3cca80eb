"""The engine's inner loops: compiled and in Python they do the same, whatever envs return."""

from __future__ import annotations

import importlib
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from functools import partial
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from conformance.threads import often_switched
from rookery.engine import loops, plain_loops, step_report, stepper

compiled = pytest.importorskip("rookery.engine._loops", reason="no C compiler when rookery was installed")
BOTH = pytest.mark.parametrize("module", [plain_loops, compiled], ids=["python", "compiled"])


@pytest.mark.parametrize(("asked", "found"), [("", compiled), ("0", compiled), ("1", plain_loops)])
def test_the_compiled_ones_are_used_unless_python_is_asked_for(
    asked: str, found: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stepper.store is loops.store
    monkeypatch.setenv("ROOKERY_PLAIN", asked)
    try:
        again = importlib.reload(loops)
        assert again.COMPILED is (found is compiled)
        assert again.store is found.store
    finally:
        monkeypatch.undo()
        importlib.reload(loops)


def test_loops_of_an_older_source_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an update of the source without a new build."""
    monkeypatch.delattr(compiled, "read_records")
    assert loops.compiled() is None


def words(count: int = 4) -> memoryview:
    return memoryview(np.zeros(count, np.int64))  # type: ignore[arg-type]


@BOTH
def test_watch_sees_a_change_and_gives_up(module: ModuleType) -> None:
    line = words()
    assert module.watch(line, 1, 5, 0.0)  # it differs already
    start = time.perf_counter()
    assert not module.watch(line, 1, 0, 0.02)
    assert time.perf_counter() - start >= 0.02
    threading.Timer(0.05, line.__setitem__, (1, 7)).start()  # which needs the interpreter in the meantime
    assert module.watch(line, 1, 0, 60.0)
    module.fence()
    assert line[1] == 7


@BOTH
def test_fences_of_several_callers_do_not_meet(module: ModuleType) -> None:
    """Whoever comes in the middle of a fence, another thread or a signal's handler, is not disturbed by it, nor is it
    by them."""
    passed = 0

    def come_between(frame: Any, event: str, arg: Any) -> None:
        nonlocal passed
        if event == "c_return":
            passed += 1
            sys.setprofile(None)
            module.fence()
            sys.setprofile(come_between)

    sys.setprofile(come_between)
    try:
        module.fence()
    finally:
        sys.setprofile(None)
    assert passed
    module.fence()


@BOTH
def test_fences_in_many_threads(module: ModuleType) -> None:
    """None fails, however often they take turns."""
    with ThreadPoolExecutor(4) as threads, often_switched():
        fences = threads.map(lambda _: [module.fence() for _ in range(20_000)], range(4))
    assert [len(made) for made in fences] == [20_000] * 4


@BOTH
def test_step_each(module: ModuleType) -> None:
    line, seen = words(), []

    def step(action: int) -> int:
        seen.append((action, line[2]))
        if action == 30:
            raise KeyError("no")
        return action + 1

    results = module.step_each([step] * 4, [10, 20, 30, 40], [0, 2, 0, 0], line, 2, 5, lambda error: ("caught", error))
    assert seen == [(10, 5), (30, 7), (40, 8)]
    assert results[:2] == [11, None] and results[3] == 41
    kind, error = results[2]
    assert kind == "caught" and repr(error) == "KeyError('no')"
    assert error.__traceback__ is not None


@BOTH
def test_step_each_lets_through_what_is_not_caught(module: ModuleType) -> None:
    def step(action: int) -> int:
        raise KeyboardInterrupt

    def caught(error: BaseException) -> None:
        raise error

    with pytest.raises(KeyboardInterrupt):
        module.step_each([step], [0], [0], words(), 0, 0, caught)


@BOTH
def test_step_each_wants_an_action_for_each(module: ModuleType) -> None:
    with pytest.raises(ValueError):
        module.step_each([abs, abs], [1], [0, 0], words(), 0, 0, repr)


@BOTH
@pytest.mark.parametrize("kind", ["f4", "f8", "i8"])
def test_inside(module: ModuleType, kind: str) -> None:
    low, high = np.full((3, 50), -2, kind), np.full((3, 50), 2, kind)
    rows = np.zeros((3, 50), kind)
    rows[0], rows[1] = -2, 2
    assert module.inside(rows, low, high) is True
    for bad in (-3, 3) if kind == "i8" else (-2.5, 3, np.nan, np.inf, -np.inf):
        rows[2, 49] = bad
        assert module.inside(rows, low, high) is False


FIELD, RECORDS, MASK = ("a", "_a", np.dtype("f8"), 8, ()), np.zeros((3, 16), np.uint8), np.ones(3, np.bool_)


@BOTH
def test_read_records(module: ModuleType) -> None:
    """Numbers and arrays of all shapes: views of a copy, each with a mask that is one copy too."""
    kinds = np.dtype([("a", "f8"), ("b", "i4", (2, 3)), ("c", "?"), ("d", "f4", (2,))], align=True)
    records = np.random.default_rng(1).integers(0, 2, (5, kinds.itemsize), np.uint8)
    told: dict[str, Any] = {"before": 1}
    fields = [(name, f"_{name}", kinds[name].base, kinds.fields[name][1], kinds[name].shape) for name in "abcd"]
    expected, mask = records.view(kinds)[:, 0].copy(), np.array([True, False, True, True, True])
    module.read_records(told, fields, records, mask)
    records[:], mask[:] = 0, False
    assert told.keys() == {"before", *"abcd", *(f"_{name}" for name in "abcd")}
    for name in "abcd":
        column = told[name]
        assert column.dtype == expected[name].dtype and column.shape == expected[name].shape
        assert column.tobytes() == expected[name].tobytes() and column.flags.writeable and column.flags.aligned
        assert told[f"_{name}"].tolist() == [True, False, True, True, True]


# --- what compiled code is not to be given ----------------------------------------------------------------------------


def columns(n: int) -> list[Any]:
    kinds = (np.float64, np.bool_, np.bool_, np.float64, np.int64)
    return [memoryview(np.zeros(n, kind)) for kind in kinds]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda: compiled.watch(words(), 4, 0, 0.0),
        lambda: compiled.watch(words(), -1, 0, 0.0),
        lambda: compiled.watch(b"readonly", 0, 0, 0.0),
        lambda: compiled.watch(words(), 0, 0),
        lambda: compiled.step_each((abs,), [1], [0], words(), 0, 0, repr),
        lambda: compiled.step_each([abs], [1], [], words(), 0, 0, repr),
        lambda: compiled.step_each([abs], 3, [0], words(), 0, 0, repr),
        lambda: compiled.step_each([abs], [1], [0], words(), 9, 0, repr),
        lambda: compiled.store([], np.zeros((1, 2)), *columns(0), {}),
        lambda: compiled.store([None], np.zeros((2, 2)), *columns(1), {}),
        lambda: compiled.store([None], np.zeros((1, 2)), *columns(2), {}),
        lambda: compiled.store([None], np.zeros((2, 1)).T, *columns(1)[::-1], {}),
        lambda: compiled.store([None], np.zeros((1, 2), object), *columns(1), {}),
        lambda: compiled.store((None,), np.zeros((1, 2)), *columns(1), {}),
        lambda: compiled.store([None], None, *columns(1), {}),
        lambda: compiled.store([None], np.zeros((1, 2)), *columns(1), None),
        lambda: compiled.store(
            [(np.zeros(2), 0.0, False, False, {"a": 1.0})], np.zeros((1, 2)), *columns(1), {"a": (float,)}
        ),
        lambda: compiled.store(
            [(np.zeros(2), 0.0, False, False, {"a": 1.0})], np.zeros((1, 2)), *columns(1), {"a": ((float,), words(), 1)}
        ),
        lambda: compiled.read_slots({}, [("a", "_a", np.dtype("f8"))], np.zeros((0, 3)), np.zeros((0, 3), bool)),
        lambda: compiled.read_slots({}, [("a", "_a", np.dtype("f8"))], np.zeros((1, 3)), np.zeros((1, 2), bool)),
        lambda: compiled.read_slots({}, [("a", "_a", np.dtype("f8"))], np.zeros((1, 3), "f4"), np.ones((1, 3), bool)),
        lambda: compiled.read_slots({}, [("a", "_a", np.dtype("f8"))], np.zeros((3, 1)).T, np.ones((3, 1)).T),
        lambda: compiled.read_slots({}, [("a", "_a", "f8")], np.zeros((1, 3)), np.ones((1, 3), bool)),
        lambda: compiled.read_slots({}, (), np.zeros((1, 3)), np.ones((1, 3), bool)),
        lambda: compiled.read_records({}, [FIELD], RECORDS.astype(bool), MASK),
        lambda: compiled.read_records({}, [FIELD], RECORDS[:, ::2], MASK),
        lambda: compiled.read_records({}, [FIELD], RECORDS, None),
        lambda: compiled.read_records({}, (FIELD,), RECORDS, MASK),
        lambda: compiled.read_records({}, [FIELD[:4]], RECORDS, MASK),
        lambda: compiled.read_records({}, [("a", "_a", np.dtype("f8"), 12, ())], RECORDS, MASK),
        lambda: compiled.read_records({}, [("a", "_a", np.dtype("f8"), -8, ())], RECORDS, MASK),
        lambda: compiled.read_records({}, [("a", "_a", np.dtype("f8"), 0, (3,))], RECORDS, MASK),
        lambda: compiled.read_records({}, [("a", "_a", np.dtype("f8"), 0, (-1,))], RECORDS, MASK),
        lambda: compiled.read_records({}, [("a", "_a", np.dtype("f8"), 0, (1,) * 17)], RECORDS, MASK),
        lambda: compiled.read_records({}, [("a", "_a", np.dtype(object), 0, ())], RECORDS, MASK),
        lambda: compiled.inside(np.zeros(3), np.zeros(2), np.zeros(3)),
        lambda: compiled.inside(np.zeros(3), np.zeros(3, np.float32), np.zeros(3)),
        lambda: compiled.inside(np.zeros(3, np.int16), np.zeros(3, np.int16), np.zeros(3, np.int16)),
        lambda: compiled.inside(np.zeros((3, 3))[:, 0], np.zeros(3), np.zeros(3)),
    ],
)
def test_wrong_arguments_are_refused(call: Any) -> None:
    with pytest.raises((TypeError, IndexError, ValueError, BufferError)):
        call()


def test_a_released_column_is_refused() -> None:
    gone = columns(1)
    gone[0].release()
    with pytest.raises(TypeError, match="memoryview"):
        compiled.store([None], np.zeros((1, 2)), *gone, {})


def test_references_are_given_back() -> None:
    observation, reward, info, key, word = np.zeros(2), 1234.5, {"a": 1.5}, words(), "a longer word".upper()
    slots = {"a": ((float,), memoryview(np.zeros(2)), memoryview(np.zeros(2, np.bool_)))}  # type: ignore[arg-type]
    action, odd, dtype = object(), object(), np.dtype("f4")

    def step(given: object) -> tuple:
        if given is None:
            raise KeyError
        return observation, reward, False, False, info

    def round_of_steps() -> None:
        results = compiled.step_each([step, step], [action, None], [0, 0], key, 0, 0, lambda error: odd)
        compiled.store(results, np.zeros((2, 2)), *columns(2), slots)
        told: dict[str, Any] = {}
        compiled.read_slots(told, [(word, "_a", dtype)], np.zeros((1, 2)), np.ones((1, 2), np.bool_))
        assert told["_a"].all()
        compiled.read_records(told, [(word, "_a", dtype, 4, (2,))], RECORDS, MASK)
        with pytest.raises(ValueError, match="not in the record"):
            compiled.read_records(told, [(word, "_a", dtype, 4, (9,))], RECORDS, MASK)

    round_of_steps()
    watched = observation, reward, info, action, odd, step, slots["a"][1], key, word, dtype, RECORDS, MASK
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(100):
        round_of_steps()
    assert [sys.getrefcount(thing) for thing in watched] == before


# --- any env ----------------------------------------------------------------------------------------------------------


class Level(IntEnum):
    EASY = 1


def some_observation(draw: random.Random) -> Any:
    values = [draw.uniform(-1, 1) for _ in range(6)]
    plain = np.array(values, np.float32).reshape(2, 3)
    return draw.choice(
        [
            *[plain] * 12,
            np.asfortranarray(plain),
            plain.astype(">f4"),
            np.array(values * 2, np.float32).reshape(2, 6)[:, ::2],
            plain.tolist(),
            plain.view(type("Mine", (np.ndarray,), {})),
        ]
    )


def some_wrong_observation(draw: random.Random) -> Any:
    far = np.full((2, 3), 9.0, np.float32)
    return draw.choice(
        [np.zeros((2, 3)), np.zeros((3, 2), np.float32), np.full((2, 3), np.nan, np.float32), far, None, "six", []]
    )


REWARDS = [1.0, 0.5, -2, True, np.float32(0.1), np.float64(0.25), np.int64(3), 2**60, np.float16(1.5), np.array(2.0)]
WRONG_REWARDS = [float("nan"), float("inf"), None, "one", [1.0, 2.0], 10**400]
NO, YES = [False, np.False_, 0, np.bool_(False)], [True, np.True_, 1]
VALUES = [
    1.5, np.float64(2.5), np.float32(0.1), 7, -(2**40), 2**70, np.int64(9), np.uint64(2**63), True, np.True_, "word",
    None, {"deep": 1.0}, np.arange(3), Level.EASY,
]  # fmt: skip


def some_info(draw: random.Random) -> Any:
    kind = draw.randrange(8)
    if kind < 4:
        return {}
    if kind < 7:  # the same kinds of numbers most of the time: then they travel in slots
        usual = {"speed": draw.random(), "count": draw.randrange(99), "far": np.float64(draw.random())}
        return usual if draw.random() < 0.8 else {**usual, draw.choice([*usual, "odd"]): draw.choice(VALUES)}
    return draw.choice([{"odd": draw.choice(VALUES)}, type("Info", (dict,), {})(speed=1.0), {1: 2.0}])


def some_result(draw: random.Random, wrong: bool) -> Any:
    """What a step may return: most of the time all is well."""
    observation, reward = some_observation(draw), draw.choice(REWARDS)
    terminated = draw.choice(YES if draw.random() < 0.1 else NO)
    truncated = draw.choice(YES if draw.random() < 0.05 else NO)
    result: Any = observation, reward, terminated, truncated, some_info(draw)
    if not wrong:
        return result
    return draw.choice(
        [
            (some_wrong_observation(draw), *result[1:]),
            (observation, draw.choice(WRONG_REWARDS), *result[2:]),
            (*result[:4], draw.choice([None, 3, "info"])),
            result[:4],
            list(result),
            None,
            ZeroDivisionError("in the env"),
        ]
    )


class Whatever(gym.Env):
    """Returns anything an env may return, and in `wrong` of a hundred steps what it may not; the same for a seed."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2, 3))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, wrong: int = 0) -> None:
        self.wrong = wrong

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        if seed is not None:
            self.draw = random.Random(seed)
        return np.zeros((2, 3), np.float32), {}

    def step(self, action: Any) -> Any:
        result = some_result(self.draw, self.draw.randrange(100) < self.wrong)
        if isinstance(result, Exception):
            raise result
        return result


def story(wrong: int, steps: int, **options: Any) -> list[Any]:
    """All that a batch of such envs gives, errors among it, in a form that can be compared."""
    envs = rookery.make_vec(partial(Whatever, wrong), 5, backend="serial", **options)
    told: list[Any] = [repr(envs.reset(seed=3))]
    for k in range(steps):
        try:
            told.append(repr(envs.step(np.zeros(5, np.int64))))
        except (rookery.errors.RookeryError, ZeroDivisionError, OverflowError) as error:
            told.append(f"{type(error).__name__}: {error}")
            told.append(repr(envs.reset(seed=100 + k)))
        told.append(repr(envs.finished_episodes()[["env", "return", "length"]].tolist()))
    envs.close()
    return told


@pytest.mark.slow
@pytest.mark.skipif(not loops.COMPILED, reason="with ROOKERY_PLAIN there is nothing to compare")
@pytest.mark.parametrize("wrong", [0, 5])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_the_same_whatever_envs_return(wrong: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"autoreset_mode": gym.vector.AutoresetMode(mode)}
    ours = story(wrong, 200, **options)
    monkeypatch.setattr(stepper, "store", plain_loops.store)
    monkeypatch.setattr(stepper, "step_each", plain_loops.step_each)
    monkeypatch.setattr(step_report, "read_slots", plain_loops.read_slots)
    theirs = story(wrong, 200, **options)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one == other


@pytest.mark.slow
def test_workers_without_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """On either side: a parent with and workers without work together, and give the numbers of envs in the parent."""
    told = []
    for backend, workers in (("serial", 1), ("process", 2)):
        monkeypatch.setenv("ROOKERY_PLAIN", "1" if backend == "process" else "0")
        envs = rookery.make_vec(partial(Whatever, 0), 5, backend=backend, workers=workers)
        told.append([repr(envs.reset(seed=3))] + [repr(envs.step(np.zeros(5, np.int64))) for _ in range(200)])
        envs.close()
    assert told[0] == told[1]
