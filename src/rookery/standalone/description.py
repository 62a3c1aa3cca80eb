"""From the agent of a checkpoint to a description in plain values and arrays, of which `runtime.NumPyAgent` is made.

Only what acts is kept: no critics, no target networks, and not the half of a dueling network that estimates the value
of the state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.learners.learner_spec import ActorLayout
from rookery.learners.registry import specs

Arrays = dict[str, np.ndarray]
MASK_KEY = "action_mask"


def describe(saved: dict[str, Any], about: dict[str, Any], table: np.ndarray | None = None) -> tuple[dict, Arrays]:
    """Description and arrays of the agent that a checkpoint's part "agent" holds.

    Args:
        saved: That part: the learner's name and options, the policy's arrays, both spaces.
        about: What a reader may want to know of it, such as run and world.
        table: What each of its choices stands for, [choices, numbers], if the env is to be given that instead.
    """
    spec, policy = specs()[saved["learner"]], saved["policy"]
    if spec.actor is None:
        raise OptionError(
            f"agents of {spec.title} cannot be written as a file for NumPy alone: its spec names no actor"
        )
    if saved["options"].get("network"):
        raise OptionError(
            "an agent with a network of your own cannot be written for NumPy alone: --onnx writes it for onnxruntime"
        )
    if saved["action_space"]["kind"] in ("Dict", "Tuple"):
        raise OptionError(
            f"an agent with {saved['action_space']['kind']} actions cannot be written as a file for NumPy alone: "
            "--onnx writes one for onnxruntime"
        )
    if any(name.startswith("encoder.images.") for name in policy):
        raise OptionError(
            "an agent that sees images cannot be written as a file for NumPy alone: --onnx writes one for onnxruntime"
        )
    layers = _layers(spec.actor, policy)
    arrays = {f"{k}.{name}": part for k, layer in enumerate(layers) for name, part in layer.items()}
    arrays |= _normaliser(policy)
    arrays |= {name: policy[name] for name in policy if name.startswith("core.")}
    if "head.log_std" in policy:
        arrays["log_std"] = policy["head.log_std"]
    if table is not None:
        arrays["table"] = np.asarray(table)
    description = {
        "about": about,
        "leaves": _leaves(saved["observation_space"], ()),
        "activation": saved["options"]["activation"],
        "layers": len(layers),
        "head": _head(saved, spec.actor),
    }
    return description, {name: np.asarray(part, np.float32) for name, part in arrays.items()}


def _layers(actor: ActorLayout, policy: Arrays) -> list[Arrays]:
    """The actor as a plain perceptron: weights and biases, layer by layer."""
    count = sum(name.startswith(actor.layers) and name.endswith(".weight") for name in policy)
    layers = [_layer(policy, f"{actor.layers}{k}.") for k in range(count)]
    if actor.value is not None and f"{actor.value}weight" in policy:
        # The first half of the last hidden layer is for the value of the state, on which no action depends.
        half = policy[f"{actor.value}weight"].shape[1]
        layers[-1] = {name: part[half:] for name, part in layers[-1].items()}
    return layers if actor.last is None else [*layers, _layer(policy, actor.last)]


def _layer(policy: Arrays, start: str) -> Arrays:
    return {name: policy[start + name] for name in ("weight", "bias")}


def _normaliser(policy: Arrays) -> Arrays:
    """As `learners.normalize.RunningNorm` shifts and scales."""
    if "encoder.norm.mean" not in policy:
        return {}
    return {"shift": policy["encoder.norm.mean"], "scale": (policy["encoder.norm.variance"] + 1e-8) ** -0.5}


def _leaves(space: dict[str, Any], path: tuple[str | int, ...]) -> list[dict[str, Any]]:
    """The arrays of an observation, in the order in which nets read them."""
    kind = space["kind"]
    if kind in ("Dict", "Tuple"):
        keys = space["keys"] if kind == "Dict" else range(len(space["parts"]))
        parts = [(key, space["parts"][str(k)]) for k, key in enumerate(keys)]
        return [leaf for key, part in parts if path or key != MASK_KEY for leaf in _leaves(part, (*path, key))]
    sizes = _choices(space) if kind in ("Discrete", "MultiDiscrete") else None
    return [
        {
            "name": ".".join(map(str, path)) or "observation",
            "path": list(path),
            "shape": _shape(space),
            "sizes": sizes and sizes[0],
            "starts": sizes and sizes[1],
        }
    ]


def _shape(space: dict[str, Any]) -> list[int]:
    if space["kind"] == "Discrete":
        return []
    if space["kind"] == "MultiBinary":
        return space["n"] if isinstance(space["n"], list) else [space["n"]]
    return list(np.shape(space["nvec"] if space["kind"] == "MultiDiscrete" else space["low"]))


def _choices(space: dict[str, Any]) -> tuple[list[int], list[int]]:
    """How many values each number has, and where they begin."""
    sizes, starts = (space["n"] if "n" in space else space["nvec"]), space["start"]
    return np.ravel(sizes).tolist(), np.ravel(starts).tolist()


def _head(saved: dict[str, Any], actor: ActorLayout) -> dict[str, Any]:
    """How outputs of the network become actions."""
    space, options = saved["action_space"], saved["options"]
    if space["kind"] == "MultiBinary":
        return {"kind": "switches", "shape": _shape(space)}
    if space["kind"] == "Box":
        bounds = {name: np.ravel(space[name]).tolist() for name in ("low", "high")}
        std = {"std": options[actor.noise]} if actor.noise is not None else {}
        return {"kind": actor.continuous, "shape": _shape(space), "dtype": space["dtype"], **bounds, **std}
    sizes, starts = _choices(space)
    epsilon = options[actor.epsilon] if actor.epsilon is not None else None
    return {"kind": "choices", "shape": _shape(space), "sizes": sizes, "starts": starts, "epsilon": epsilon}
