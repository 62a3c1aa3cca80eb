"""The names of learners, for those who read runs: importing the options of all of them takes longer than that."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

ENTRY_POINTS = "rookery.learners"  # the group in which installed packages name their `LearnerSpec`s
# rookery's own, as in `registry.specs()`
ON_POLICY = {"ppo": True, "sac": False, "dqn": False, "td3": False, "pqn": True, "xqc": False}


@cache
def learner_names() -> Collection[str]:
    """Of all learners. Each has a section in a config."""
    if not entry_points(group=ENTRY_POINTS):
        return ON_POLICY.keys()
    names: Collection[str] = import_module("rookery.learners.registry").specs().keys()
    return names
