"""A rollout of which the envs were stepped in several places: the part of one place as arrays, and all parts as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rookery.learners.rollout import Rollout

NAMES = ("actions", "outputs", "rewards", "terminated", "ended", "starts", "features")
RolloutPart = dict[str, Any]  # arrays by name, contiguous


def take_part(rollout: Rollout) -> RolloutPart:
    """A full rollout as arrays, without its noise, which came from whoever joins the parts. They are views."""
    named = {f"observation{k}": leaf for k, leaf in enumerate(rollout.observations)}
    named |= {f"last{k}": leaf for k, leaf in enumerate(rollout.last)}
    named |= {name: getattr(rollout, name) for name in (*NAMES, "masks") if getattr(rollout, name) is not None}
    if rollout.finals:
        steps, envs, leaves = rollout.joined_finals()
        named |= {"final_steps": steps, "final_envs": envs}
        named |= {f"final_leaf{k}": leaf for k, leaf in enumerate(leaves)}
    return {name: tensor.numpy() for name, tensor in named.items()}


def join_parts(rollout: Rollout, parts: list[tuple[slice, RolloutPart]]) -> None:
    """Fill a rollout on a CPU that has begun with the parts of all its envs: each with the rows that it has."""
    for rows, part in parts:
        _store(rollout, rows, part)
    _store_finals(rollout, [(rows, part) for rows, part in parts if "final_steps" in part])
    rollout.advance(slice(0, rollout.envs), rollout.length)


def _store(rollout: Rollout, rows: slice, part: RolloutPart) -> None:
    for k, leaf in enumerate(rollout.observations):
        leaf.numpy()[:, rows] = part[f"observation{k}"]
    for k, leaf in enumerate(rollout.last):
        leaf.numpy()[rows] = part[f"last{k}"]
    for name in NAMES:
        if name in part:
            getattr(rollout, name).numpy()[:, rows] = part[name]
    if "masks" in part:
        for t, mask in enumerate(part["masks"]):
            rollout.store_mask(t, rows, np.array(mask))


def _store_finals(rollout: Rollout, parts: list[tuple[slice, RolloutPart]]) -> None:
    """In the order in which one process has them: by step, and then by env."""
    if not parts:
        return
    steps = np.concatenate([part["final_steps"] for _, part in parts])
    envs = np.concatenate([part["final_envs"] + rows.start for rows, part in parts])
    leaves = [np.concatenate([part[f"final_leaf{k}"] for _, part in parts]) for k in range(len(rollout.observations))]
    order = np.lexsort((envs, steps))
    steps, envs, leaves = steps[order], envs[order], [leaf[order] for leaf in leaves]
    for t in np.unique(steps):
        chosen = slice(*np.searchsorted(steps, [t, t + 1]))
        rollout.finals.append(
            (int(t), torch.from_numpy(envs[chosen]), [torch.from_numpy(leaf[chosen]) for leaf in leaves])
        )
