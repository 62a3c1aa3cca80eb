"""The minibatch and the gradients of the next update, without making it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.engine.value_tree import copied_state
from rookery.errors import StateError
from rookery.learners.accelerator import Accelerator
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner import Learner, Tree

Arrays = dict[str, np.ndarray]


def next_gradients(learner: Learner) -> tuple[Arrays, Arrays]:
    """The first minibatch of the next update, and the gradients of each network at it, by parameter and before they are
    clipped. They are computed by the algorithm's plain code, and the learner is left as it was."""
    if not learner.ready():
        raise StateError("no update is due at this moment: rewind to one by `update`")
    saved, accelerator = copied_state(learner.state()), learner.accelerator
    minibatch: Arrays = {}
    gradients: dict[str, Tensor] = {}
    adams = dict(_adams(learner.parts()))
    learner.accelerator = Accelerator(learner)
    step = learner.gradient_step

    def first_step(given: Any, *args: Any, **options: Any) -> Any:
        if not minibatch:
            minibatch.update(_arrays(given))
        return step(given, *args, **options)

    try:
        learner.__dict__["gradient_step"] = first_step
        for name, adam in adams.items():
            adam.on_gradient = lambda gradient, name=name: gradients.setdefault(name, gradient.detach().clone())
        if learner.on_policy:
            learner.execution.learn_plainly(learner.execution.follow_schedules())
        else:
            learner.execution.train_step(learner.updates + 1)
    finally:
        for adam in adams.values():
            adam.on_gradient = None
        learner.__dict__.pop("gradient_step", None)
        learner.accelerator = accelerator
        learner.load(saved)
    names = {id(parameter): name for name, parameter in _parameters(learner)}
    return minibatch, {
        names.get(id(parameter), f"{name}.{k}"): part
        for name, adam in adams.items()
        if name in gradients
        for k, (parameter, part) in enumerate(_parts(adam, gradients[name]))
    }


def _adams(parts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, FlatAdam]]:
    for name, part in parts.items():
        if isinstance(part, FlatAdam):
            yield f"{prefix}{name}", part
        elif isinstance(part, Mapping):
            yield from _adams(part, f"{prefix}{name}.")


def _parameters(learner: Learner) -> Iterator[tuple[str, nn.Parameter]]:
    for name, part in vars(learner).items():
        if isinstance(part, nn.Module):
            for inner, parameter in part.named_parameters():
                yield f"{name}.{inner}", parameter


def _parts(adam: FlatAdam, gradient: Tensor) -> Iterator[tuple[nn.Parameter, np.ndarray]]:
    sizes = [parameter.numel() for parameter in adam.parameters]
    for parameter, part in zip(adam.parameters, gradient.split(sizes), strict=True):
        yield parameter, part.reshape(parameter.shape).cpu().numpy()


def _arrays(value: Any, name: str = "") -> Arrays:
    """All tensors in a minibatch, by name."""
    if isinstance(value, (Tensor, np.ndarray)):
        return {name: value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else value.copy()}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "__dataclass_fields__"):
        value = vars(value)
    if isinstance(value, Mapping):
        items = list(value.items())
    else:
        items = list(enumerate(value)) if isinstance(value, (list, tuple)) else []
    return {inner: array for key, part in items for inner, array in _arrays(part, f"{name}.{key}".strip(".")).items()}


def batch_of(learner: Learner) -> Arrays:
    """What the learner has collected for its next update: an on-policy learner's rollout, [steps, envs, ...], or the
    minibatch of an off-policy one that is due."""
    if not learner.on_policy:
        return next_gradients(learner)[0] if learner.ready() else {}
    learner.accelerator.flush()
    return made_so_far(learner.rollout.state())


def made_so_far(rollout: Tree) -> Arrays:
    """The steps of a saved rollout that were made: what follows them is left from the one before."""
    steps = min(rollout.get("clocks", {"": 0}).values(), default=0)
    arrays = {name: array for name, array in rollout.get("arrays", {}).items() if name not in ("noise", "first_memory")}
    return {name: array[:steps] for name, array in arrays.items() if not name.startswith(("last", "final"))}


def norm(gradients: Arrays) -> float:
    """The length of all gradients as one vector.

    >>> norm({"a": np.array([3.0]), "b": np.array([[4.0]])})
    5.0
    """
    return float(torch.tensor([float(np.linalg.norm(part)) for part in gradients.values()]).norm())
