"""What rookery knows about a learner before it loads it. No torch here: a config is read without anything heavy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

from rookery.learners.options import Options
from rookery.learners.own_learners import ENTRY_POINTS


@dataclass(frozen=True)
class ActorLayout:
    """Where a policy's saved arrays have its actor, for agents that act with NumPy alone."""

    layers: str  # the names of its layers begin with this, and continue with a number
    last: str | None = None  # a last layer with a name of its own
    value: str | None = None  # a dueling network's layer for the value of the state, on which no action depends
    continuous: Literal["cut", "squashed"] = "cut"  # how continuous actions get into their bounds: clipped, or by tanh
    epsilon: str | None = None  # the option that holds the share of random actions
    noise: str | None = None  # the option that holds the standard deviation of noise on squashed actions


@dataclass(frozen=True)
class LearnerSpec:
    """One learner: where its code is, its options, the action spaces it supports.

    Installed packages offer theirs by an entry point in the group `rookery.learners`.
    """

    name: str  # as in `--learner NAME`, and of its section in a config
    learner: str  # "package.module:Class" of the `Learner`
    policy: str  # "package.module:Class" of its `Policy`
    options: type[Options]
    supports: Callable[[Any], bool]  # whether it can act in an action space
    needs: str  # the same in words, for messages
    title: str = ""  # in texts; the name in capitals if omitted
    on_policy: bool = False
    sample_efficient: bool = False  # the default where it fits and steps are expensive
    kernel_envs: int = 4  # envs of a kernel world without a recipe
    actor: ActorLayout | None = field(default=None)  # None: it cannot be exported as a standalone agent

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.upper())

    def load_learner(self) -> Any:
        """The class of the learner."""
        return load_attribute(self.learner)

    def load_policy(self) -> Any:
        """The class of the policy."""
        return load_attribute(self.policy)


def load_attribute(path: str) -> Any:
    """
    >>> load_attribute("math:pi")
    3.141592653589793
    """
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def installed_specs(taken: Iterable[str]) -> dict[str, LearnerSpec]:
    """The specs of installed packages, by name. One that cannot be loaded is skipped with a warning."""
    found: dict[str, LearnerSpec] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            spec = entry.load()
            if not isinstance(spec, LearnerSpec):
                raise TypeError(f"{entry.value} is a {type(spec).__name__}, not a LearnerSpec")
            if spec.name in (*taken, *found):
                raise ValueError(f"there is already a learner {spec.name!r}")
        except Exception as error:  # noqa: BLE001 - other people's code may raise anything
            warnings.warn(f"learner plugin {entry.name!r} is skipped: {type(error).__name__}: {error}", stacklevel=2)
        else:
            found[spec.name] = spec
    return found
