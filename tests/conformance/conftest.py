"""One suite over all backends: every test that takes `make` runs on each of them."""

from __future__ import annotations

import pytest

import rookery

BACKENDS = {
    "serial": {"backend": "serial", "workers": 1},
    "thread": {"backend": "thread", "workers": 2},
    "process": {"backend": "process", "workers": 2, "start_method": "forkserver"},
}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def make(backend):
    """`make(world, num_envs, **options)` on the backend under test; engines are closed afterwards."""
    engines = []

    def build(world, num_envs=3, **options):
        chosen = dict(BACKENDS[backend])
        chosen["workers"] = min(chosen["workers"], num_envs)
        engines.append(rookery.make_vec(world, num_envs, **(chosen | options)))
        return engines[-1]

    yield build
    for engine in engines:
        engine.close()
