"""One suite over all backends.

A test that takes `make_any` runs on each of them, on worlds that have a form for each: `cartpole` and `counter`. One
that takes `make` is about what only envs in Python do, and leaves out the kernel backend.
"""

from __future__ import annotations

import pytest

import rookery
from conformance.worlds import Counter, CounterWorld

BACKENDS = {
    "serial": {"backend": "serial", "workers": 1},
    "thread": {"backend": "thread", "workers": 2},
    "process": {"backend": "process", "workers": 2},
    "kernel": {"backend": "kernel", "workers": 1},
}


def pytest_itemcollected(item):
    """Of backends, modes, worlds and spaces, every push has one diagonal."""
    item.add_marker("diagonal")


@pytest.fixture(params=[name for name in BACKENDS if name != "kernel"])
def backend(request):
    return request.param


@pytest.fixture(params=BACKENDS)
def any_backend(request):
    return request.param


@pytest.fixture
def make(backend):
    """`make(world, num_envs, **options)` on the backend under test; engines are closed afterwards."""
    yield from builder(backend)


@pytest.fixture
def make_any(any_backend):
    """The same on any backend."""
    yield from builder(any_backend)


@pytest.fixture
def cartpole(any_backend):
    """Gymnasium's CartPole or, for the kernel backend, its compiled version."""
    return "rookery/CartPole-v1" if any_backend == "kernel" else "CartPole-v1"


@pytest.fixture
def counter(any_backend, plain_python):
    """An env that counts its steps. CartPole is there as compiled code."""
    return CounterWorld if any_backend == "kernel" else Counter


def builder(backend):
    engines = []

    def build(world, num_envs=3, **options):
        chosen = dict(BACKENDS[backend])
        chosen["workers"] = min(chosen["workers"], num_envs)
        engines.append(rookery.make_vec(world, num_envs, **(chosen | options)))
        return engines[-1]

    yield build
    for engine in engines:
        engine.close()
