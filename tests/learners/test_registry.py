"""The registry of learners: rookery's own, and those of installed packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from gymnasium import spaces

from rookery.learners import learner_spec, own_learners, registry
from rookery.learners.learner import Learner
from rookery.learners.learner_spec import LearnerSpec, Options
from rookery.learners.policy import Policy

PLUGIN = LearnerSpec(
    name="mine",
    learner="rookery.learners.algorithms.ppo:PPO",
    policy="rookery.learners.algorithms.ppo:ActorCritic",
    options=Options,
    supports=registry.is_discrete,
    needs="mine needs a Discrete",
)


class Entry:
    """An entry point as importlib.metadata gives it."""

    value = "somewhere:SPEC"

    def __init__(self, name: str, result: Any) -> None:
        self.name, self.result = name, result

    def load(self) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    """The entry points that seem to be installed."""
    entries: list[Entry] = []
    monkeypatch.setattr(learner_spec, "entry_points", lambda group: entries if group == "rookery.learners" else [])
    registry.specs.cache_clear()
    yield entries
    registry.specs.cache_clear()


@pytest.mark.parametrize("name", sorted(registry.specs()))
def test_every_spec_names_what_there_is(name: str) -> None:
    """Its classes can be loaded, its options have defaults, and its policy is made by name."""
    spec = registry.specs()[name]
    assert issubclass(spec.load_learner(), Learner) and issubclass(spec.load_policy(), Policy)
    assert spec.load_learner().on_policy == spec.on_policy
    actions = next(space for space in (spaces.Discrete(3), spaces.Box(-1, 1, (2,))) if spec.supports(space))
    policy = registry.make_policy(name, spaces.Box(-1, 1, (3,)), actions, spec.options())
    assert isinstance(policy, spec.load_policy())


def test_installed_packages_add_learners(installed: list[Entry]) -> None:
    """After rookery's own."""
    installed.append(Entry("mine", PLUGIN))
    assert list(registry.specs())[:1] == ["ppo"] and registry.specs()["mine"] is PLUGIN


@pytest.mark.parametrize("wrong", [ImportError("no such module"), "text", registry.PPO_SPEC])
def test_a_broken_plugin_is_skipped_with_a_warning(installed: list[Entry], wrong: Any) -> None:
    """Whether it cannot be imported, is not a spec, or takes a name that exists."""
    installed += [Entry("broken", wrong), Entry("mine", PLUGIN)]
    with pytest.warns(UserWarning, match="'broken' is skipped"):
        found = registry.specs()
    assert list(found)[-1] == "mine" and found["ppo"] is registry.PPO_SPEC


def test_the_registry_is_light() -> None:
    """It loads neither torch nor numba."""
    code = (
        "import sys; from rookery.learners.registry import specs; specs(); print({'torch', 'numba'} & {*sys.modules})"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


@pytest.mark.slow
def test_nets_without_memory_are_made_quickly() -> None:
    """Every run makes them, to know how large they are. Arithmetic on torch's meta device would first import what
    torch compiles with, SymPy and all: two seconds."""
    code = """
import sys, torch
from gymnasium.spaces import Box, Discrete
from rookery.learners.registry import make_policy, specs
with torch.device("meta"):
    for spec in specs().values():
        actions = next(space for space in (Discrete(3), Box(-1, 1, (2,))) if spec.supports(space))
        make_policy(spec.name, Box(-1, 1, (3,)), actions, spec.options())
print("sympy" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_names_without_options() -> None:
    assert {name: spec.on_policy for name, spec in registry.specs().items()} == own_learners.ON_POLICY
    assert list(own_learners.learner_names()) == list(registry.specs())
