"""The one place where a run's collector is chosen: by whether its envs return arrays, tensors or whole rollouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rookery.learners.learner import Learner
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch


def make_collector(envs: Any, learner: Learner, stopwatch: Stopwatch, share_done: Callable[[int], float]) -> Collector:
    """A collector for these envs and this learner. Imported late: the CPU's runs need no code for GPUs."""
    if hasattr(envs, "make_collector"):  # they step elsewhere
        return envs.make_collector(learner, stopwatch, share_done)
    if not getattr(envs, "returns_tensors", False):
        return Collector(envs, learner, stopwatch, share_done)
    if not learner.on_policy:
        from rookery.training.run.device_replay_collector import DeviceReplayCollector

        return DeviceReplayCollector(envs, learner, stopwatch, share_done)
    from rookery.training.run.device_collector import DeviceCollector

    return DeviceCollector(envs, learner, stopwatch, share_done)
