"""A process that the program forks has a copy of the engine, but not its workers: it is rejected, and harms nobody."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rookery
from faults.envs import Walk
from faults.watch import play, same_rows, undisturbed
from rookery.errors import UsageError

pytestmark = [
    pytest.mark.timeout(30),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
Make = Callable[..., rookery.Engine]
N, SEED = 2, 5
ACTIONS = np.zeros(N, np.int64)
WITH_WORKERS = ["process", "thread"]

CALLS: dict[str, Callable[[Any], Any]] = {
    "step": lambda envs: envs.step(ACTIONS),
    "send": lambda envs: envs.send(ACTIONS),
    "recv": lambda envs: envs.recv(),
    "reset": lambda envs: envs.reset(seed=SEED),
    "call": lambda envs: envs.call("length"),
    "resize": lambda envs: envs.resize(3),
    "state_dict": lambda envs: envs.state_dict(),
    "reset_with": lambda envs: envs.reset_with({0: {"a": 1}}),
}


def in_a_child(call: Callable[[], Any]) -> str:
    """What a call comes to in a forked child: the kind of its error and its text, or of what it returns."""
    inbox, outbox = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(inbox)
        try:
            found = type(call()).__name__
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(outbox, found.encode())
        os._exit(0)
    os.close(outbox)
    with open(inbox) as file:
        found = file.read()
    os.waitpid(child, 0)
    return found


def started(make: Make, backend: str, **options: Any) -> rookery.Engine:
    envs = make(Walk, N, backend, N if backend != "serial" else 1, **options)
    envs.reset(seed=SEED)
    return envs


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", WITH_WORKERS)
def test_a_child_is_refused(make: Make, backend: str) -> None:
    """Every call that would need the workers is a UsageError that says whose they are; the parent continues."""
    envs = started(make, backend)
    results = play(envs, 3)
    for name, call in CALLS.items():
        found = in_a_child(lambda call=call: call(envs))
        assert found.startswith(f"UsageError: {name}() was called in a forked process"), found
    results += play(envs, 4, first=3)
    assert same_rows(results, undisturbed(Walk, N, 7, SEED), [0, 1])


@pytest.mark.parametrize("backend", WITH_WORKERS)
def test_a_child_forked_in_mid_step_takes_no_reply(make: Make, backend: str) -> None:
    """Results that are on their way stay the parent's, with groups too."""
    envs = started(make, backend, groups=2)
    first, second = envs.groups
    first.send(ACTIONS[:1])
    second.send(ACTIONS[:1])
    assert in_a_child(envs.recv).startswith("UsageError")
    assert in_a_child(first.recv).startswith(("UsageError", "NoCallPending"))
    assert in_a_child(lambda: first.step(ACTIONS[:1])).startswith("UsageError: send() was called in a forked process")
    assert first.recv()[0].shape == second.recv()[0].shape == (1, 3)


@pytest.mark.parametrize("backend", WITH_WORKERS)
def test_a_child_that_closes_or_drops_its_copy_leaves_the_parents_alone(make: Make, backend: str) -> None:
    """Nor does close(), and what comes after it is still refused for the same reason."""
    box = [started(make, backend)]

    def close() -> Any:
        box[0].close()
        return box[0].step(ACTIONS)

    def drop() -> None:
        box.clear()
        gc.collect()

    assert in_a_child(close).startswith("UsageError: step() was called in a forked process")
    assert in_a_child(drop) == "NoneType"
    assert same_rows(play(box[0], 5), undisturbed(Walk, N, 5, SEED), [0, 1])


def test_a_child_of_multiprocessing_is_refused_too(make: Make) -> None:
    """As it is when a vector env is handed to a forked `Process`."""
    envs = started(make, "process")
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def work() -> None:
        try:
            envs.step(ACTIONS)
        except UsageError as error:
            results.put(str(error))

    child = context.Process(target=work)
    child.start()
    assert "make an engine of its own here" in results.get()
    child.join()
    results.close()


def test_a_child_makes_engines_of_its_own(make: Make) -> None:
    """What it makes itself, it uses as always."""
    started(make, "process")

    def own() -> Any:
        envs = rookery.make_vec(Walk, N, "process", N, start_method="fork")
        envs.reset(seed=SEED)
        results = play(envs, 5)
        envs.close()
        assert same_rows(results, undisturbed(Walk, N, 5, SEED), [0, 1])
        return results

    assert in_a_child(own) == "list"


@pytest.mark.parametrize(("backend", "world"), [("serial", Walk), ("kernel", "rookery/CartPole-v1")])
def test_engines_without_workers_are_copied_whole(make: Make, backend: str, world: Any) -> None:
    """A serial or kernel engine is in the child what any other object is: a copy that works."""
    envs = make(world, N, backend)
    envs.reset(seed=SEED)
    assert in_a_child(lambda: envs.step(ACTIONS)) == "tuple"
    assert envs.step(ACTIONS)[1].shape == (N,)
