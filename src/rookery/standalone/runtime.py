"""A trained agent on NumPy alone, for Python 3.9 and later; nothing of rookery is imported.

`rookery export --standalone` writes this very source to a file, with an agent's weights at its end.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

CLIP = 10.0  # of normalised observations
FORBIDDEN = np.float32(-1e9)  # the value of an action that a mask forbids
LOG_STD = (-10.0, 2.0)  # bounds of the log of SAC's standard deviations
erf = np.frompyfunc(math.erf, 1, 1)


class NumPyAgent:
    """Plays. `act` takes one observation, or a batch of them, and returns the action, or a batch of them.

    The memory of a recurrent agent is reset by `reset()`, and when the size of the batch changes.
    """

    def __init__(self, description: Any = None, arrays: Any = None) -> None:
        """The agent of this file, unless another one's description and arrays are given."""
        if description is None:
            description = json.loads(DESCRIPTION)
            arrays = unpack(WEIGHTS, description["arrays"])
        self.about: dict[str, Any] = description["about"]
        self._leaves, self._arrays = description["leaves"], arrays
        self._own: list[dict[str, Any]] = description.get("own", [])  # the steps of a network of the user's own
        self._activate = ACTIVATIONS[description["activation"]]
        self._normalises = description.get("layer_norm", False)
        self._columns = description.get("columns")  # of a net that several assets share: what it reads for each
        self._layers = [(arrays[f"{k}.weight"].T, arrays[f"{k}.bias"]) for k in range(description["layers"])]
        self._head = HEADS[description["head"]["kind"]](description["head"], arrays)
        self._random = np.random.default_rng(0)
        self._memory: Any = None

    def act(self, observation: Any, deterministic: bool = True, mask: Any = None) -> Any:
        """The action, in the env's action space. Sampled, as in training, unless `deterministic`; `mask` allows some
        actions only (an observation that is a dict may hold it as "action_mask")."""
        leaves, single = self._read(observation)
        if mask is None and isinstance(observation, dict):
            mask = observation.get("action_mask")
        outputs = self._outputs(self._features(leaves))
        actions = self._head.act(outputs, mask, None if deterministic else self._random)
        if not single:
            return actions
        return actions[0] if actions.ndim > 1 else actions[0].item()

    __call__ = act

    def get_step(self, observation: Any) -> list[float]:
        """The action for one observation as a list of floats, as some tournaments require."""
        return [float(number) for number in np.ravel(self.act(observation))]

    def reset(self) -> None:
        """Start a new episode: the memory becomes zero."""
        self._memory = None

    def seed(self, seed: int) -> None:
        """Fix the random choices that follow."""
        self._random = np.random.default_rng(seed)

    def __repr__(self) -> str:
        about = ", ".join(f"{name} {value}" for name, value in self.about.items())
        return f"<agent: {about}; act(observation) gives its action>"

    def _read(self, observation: Any) -> tuple[list[np.ndarray], bool]:
        """The arrays of a batch of observations; a single one becomes a batch of one."""
        arrays, single = [], None
        for leaf in self._leaves:
            shape, values = tuple(leaf["shape"]), numbers(leaf, observation)
            single = values.shape == shape if single is None else single
            values = values[None] if single else values
            if values.ndim != len(shape) + 1 or values.shape[1:] != shape:
                given = np.shape(values[0] if single else values)
                raise ValueError(f"{leaf['name']} should be of shape {shape}, or a batch of such, got {given}")
            arrays.append(values)
        return arrays, bool(single)

    def _features(self, leaves: list[np.ndarray]) -> np.ndarray:
        """The input of the network: normalised vectors, then discrete values as one-hot."""
        rows, known = len(leaves[0]), self._arrays
        vectors, choices = [], []
        for k, leaf in enumerate(self._leaves):
            flat = leaves[k].reshape(rows, -1)
            if leaf["sizes"] is None:
                vectors.append(flat)
            else:
                choices += [one_hot(flat[:, i] - leaf["starts"][i], size) for i, size in enumerate(leaf["sizes"])]
        if vectors and "shift" in known:
            vectors = [np.clip((np.concatenate(vectors, 1) - known["shift"]) * known["scale"], -CLIP, CLIP)]
        return np.concatenate(vectors + choices, 1)

    def _encode(self, features: np.ndarray) -> np.ndarray:
        """Through the steps of a network of the user's own; each names the earlier values that it takes."""
        values = [features]
        for k, step in enumerate(self._own):
            given, start = [values[place] for place in step["of"]], f"own.{k}."
            parts = {name[len(start) :]: part for name, part in self._arrays.items() if name.startswith(start)}
            values.append(STEPS[step["op"]](*given, **parts))
        return values[-1]

    def _outputs(self, features: np.ndarray) -> np.ndarray:
        features = self._encode(features)
        if not self._layers:  # the network is a whole actor
            return features
        if "core.weight_ih" in self._arrays:
            features = self._memory = self._remember(features)
        features = features if self._columns is None else features[:, self._columns]
        *hidden, (weight, bias) = self._layers
        for inner_weight, inner_bias in hidden:
            features = features @ inner_weight + inner_bias
            features = self._activate(layer_norm(features) if self._normalises else features)
        outputs = features @ weight + bias
        return outputs if self._columns is None else outputs.swapaxes(1, 2).reshape(len(outputs), -1)

    def _remember(self, features: np.ndarray) -> np.ndarray:
        """One step of a gated recurrent unit."""
        seen, kept = (self._arrays[f"core.weight_{name}"] for name in ("ih", "hh"))
        memory = self._memory
        if memory is None or len(memory) != len(features):
            memory = np.zeros((len(features), kept.shape[1]), np.float32)
        new = np.split(features @ seen.T + self._arrays["core.bias_ih"], 3, axis=1)
        old = np.split(memory @ kept.T + self._arrays["core.bias_hh"], 3, axis=1)
        let_in, keep = sigmoid(new[0] + old[0]), sigmoid(new[1] + old[1])
        return (1 - keep) * np.tanh(new[2] + let_in * old[2]) + keep * memory


class DiscreteActions:
    """One discrete action or several: the largest output of each. A table may map actions to numbers."""

    def __init__(self, head: Any, arrays: Any) -> None:
        self.shape, self.starts, self.epsilon = tuple(head["shape"]), head["starts"], head["epsilon"]
        self.ends, self.table = np.cumsum(head["sizes"])[:-1], arrays.get("table")

    def act(self, outputs: np.ndarray, mask: Any, random: Any) -> np.ndarray:
        if random is not None:
            outputs = self.disturb(outputs, random)
        if mask is not None:
            outputs = np.where(np.reshape(mask, outputs.shape), outputs, FORBIDDEN)
        choices = np.stack([part.argmax(1) for part in np.split(outputs, self.ends, axis=1)], 1)
        if self.table is not None:
            return self.table[choices[:, 0]]
        return (choices + np.array(self.starts, np.int64)).reshape(-1, *self.shape)

    def disturb(self, outputs: np.ndarray, random: Any) -> np.ndarray:
        """Logits get Gumbel noise, so that the largest is a sample; values become random for a share of rows."""
        if self.epsilon is None:
            return outputs + random.gumbel(size=outputs.shape)
        return np.where(random.random((len(outputs), 1)) < self.epsilon, random.random(outputs.shape), outputs)


class BinaryActions:
    """Binary actions."""

    def __init__(self, head: Any, arrays: Any) -> None:
        self.shape = tuple(head["shape"])

    def act(self, outputs: np.ndarray, mask: Any, random: Any) -> np.ndarray:
        refuse_mask(mask)
        if random is not None:
            outputs = outputs + random.logistic(size=outputs.shape)
        return (outputs > 0).astype(np.int8).reshape(-1, *self.shape)


class ContinuousActions:
    """Numbers within bounds: cut to them, or squashed into them by tanh."""

    def __init__(self, head: Any, arrays: Any) -> None:
        self.shape, self.squashed = tuple(head["shape"]), head["kind"] == "squashed"
        self.low, self.high = (np.array(head[name], head["dtype"]).reshape(self.shape) for name in ("low", "high"))
        self.log_std, self.std = arrays.get("log_std"), head.get("std")

    def act(self, outputs: np.ndarray, mask: Any, random: Any) -> np.ndarray:
        refuse_mask(mask)
        if self.std is not None:  # noise is added to squashed actions
            actions = np.tanh(outputs)
            if random is not None:
                actions = np.clip(actions + self.std * random.normal(size=outputs.shape), -1, 1)
        else:
            actions = self.sample(outputs, random)
        actions = actions.reshape(-1, *self.shape)
        if self.squashed:
            actions = actions * ((self.high - self.low) / 2) + (self.high + self.low) / 2
        return np.clip(actions.astype(self.low.dtype), self.low, self.high)

    def sample(self, outputs: np.ndarray, random: Any) -> np.ndarray:
        """From a Gaussian, whose standard deviation is a second output of the network if actions are squashed."""
        log_std = self.log_std
        if self.squashed:
            outputs, log_std = np.split(outputs, 2, axis=1)
            log_std = np.clip(log_std, *LOG_STD)
        if random is not None:
            outputs = outputs + np.exp(log_std) * random.normal(size=outputs.shape)
        return np.tanh(outputs) if self.squashed else outputs


def numbers(leaf: Any, observation: Any) -> np.ndarray:
    """The part of observations that the network reads as this leaf; what is not numbers is rejected."""
    try:
        for key in leaf["path"]:
            observation = observation[key]
        values = np.asarray(observation)
    except (KeyError, IndexError, TypeError, ValueError):
        raise ValueError(f"observations should have {leaf['name']}, with equally many numbers in each row") from None
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{leaf['name']} should be numbers, got {observation!r:.60}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(f"{leaf['name']} has a nan: an agent needs numbers to act on")
    return values.astype(np.float32 if leaf["sizes"] is None else np.int64)


def one_hot(values: np.ndarray, size: int) -> np.ndarray:
    """
    >>> one_hot(np.array([2, 0]), 3)
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    if ((values < 0) | (values >= size)).any():
        raise ValueError(f"a choice among {size} is out of bounds")
    return (values[:, None] == np.arange(size)).astype(np.float32)


def refuse_mask(mask: Any) -> None:
    if mask is not None:
        raise ValueError("action masks need actions that are choices")


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * values)  # which never overflows


def layer_norm(values: np.ndarray, weight: Any = 1.0, bias: Any = 0.0) -> np.ndarray:
    mean, variance = values.mean(1, keepdims=True), values.var(1, keepdims=True)
    return (values - mean) / np.sqrt(variance + np.float32(1e-5)) * weight + bias


def unpack(text: str, shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Arrays from text: 32-bit floats in base 85, one array after the other."""
    numbers, arrays, start = np.frombuffer(base64.b85decode("".join(text.split())), "<f4"), {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape, dtype=np.int64))
        arrays[name] = numbers[start : start + size].reshape(shape).astype(np.float32)
        start += size
    if start != len(numbers):
        raise ValueError("the weights in this file are damaged: export the agent again")
    return arrays


ACTIVATIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "relu": lambda values: np.maximum(values, 0),
    "elu": lambda values: np.where(values > 0, values, np.expm1(np.minimum(values, 0))),
    "gelu": lambda values: 0.5 * values * (1 + erf(values * math.sqrt(0.5)).astype(np.float32)),
    "silu": lambda values: values * sigmoid(values),
}
STEPS: dict[str, Any] = {
    **ACTIVATIONS,
    "linear": lambda values, weight, bias=0.0: values @ weight.T + bias,
    "layer_norm": layer_norm,
    "sigmoid": sigmoid,
    "leaky_relu": lambda values: np.where(values > 0, values, np.float32(0.01) * values),
    "add": lambda one, other: one + other,
    "multiply": lambda one, other: one * other,
    "same": lambda values: values,
}
HEADS: dict[str, Any] = {
    "choices": DiscreteActions,
    "switches": BinaryActions,
    "cut": ContinuousActions,
    "squashed": ContinuousActions,
}

# What the agent is made of, as JSON, and its weights. Exported files have them here.
DESCRIPTION = ""
WEIGHTS = ""

Agent = NumPyAgent  # the name under which exported files offer it


if __name__ == "__main__":
    print(Agent())
