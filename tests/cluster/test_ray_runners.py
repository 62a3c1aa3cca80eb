"""How a search calls its runners on Ray: by a stand-in for Ray that makes its calls at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rookery.cluster import ray_search
from rookery.cluster.ray_search import RayRunners
from rookery.cluster.transport import CollectorLost


class NoNode(Exception):
    """What Ray raises if a process is gone."""


class Handle:
    """Of an actor: its methods have `remote`, and it has no others."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._actor, name)
        return SimpleNamespace(remote=method)


class Runner:
    """Stands in for a `TrialRunner`."""

    def archive(self, name: str) -> bytes:
        """A run, packed."""
        return name.encode() + b"\x80"

    def die(self) -> NoNode:
        """Nothing comes back."""
        return NoNode("the node has died")


def get(answer: Any, timeout: float | None) -> Any:
    if isinstance(answer, NoNode):
        raise answer
    return answer


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> RayRunners:
    monkeypatch.setattr(ray_search, "TrialRunner", Runner)
    never = type("Never", (Exception,), {})
    ray = SimpleNamespace(
        remote=lambda **options: lambda kind: SimpleNamespace(remote=lambda: Handle(kind())),
        get=get,
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: "here"),
        exceptions=SimpleNamespace(GetTimeoutError=never, RayTaskError=never, RayError=NoNode),
    )
    return RayRunners(ray, cores=1, gpus=0, most=None)


def test_methods_are_called_by_their_names_and_bytes_stay_bytes(runners: RayRunners) -> None:
    """An archive is not taken for something to unpickle."""
    runner = runners.start()
    assert runners.result(runners.call(runner, "archive", "run"), None) == b"run\x80"


def test_a_runner_that_is_gone_is_told(runners: RayRunners) -> None:
    """In the words of every transport."""
    with pytest.raises(CollectorLost, match="the node has died"):
        runners.result(runners.call(runners.start(), "die"), None)
