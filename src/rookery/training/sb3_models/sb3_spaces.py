"""Spaces from the plain facts in an SB3 model's JSON. Its pickled spaces are not read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import FileError
from rookery.learners.plain_spaces import BOX_TYPES

MOST_NUMBERS = 1 << 24
NUMBER = re.compile(r"-?(?:inf|nan|\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)", re.IGNORECASE)


def space_from_facts(facts: Any, what: str) -> spaces.Space:
    """The space that SB3's JSON describes beside its pickle.

    Args:
        facts: Such as {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": "2", "start": "0", ...}.
        what: "observation" or "action", for messages.

    Raises:
        FileError: The plain facts do not suffice.
    """
    kind = re.search(r"\b(\w{1,100})'>$", str(facts.get(":type:", ""))) if isinstance(facts, dict) else None
    reader = READERS.get(kind[1]) if kind else None
    if reader is None:
        name = f" {kind[1]}" if kind else ""
        raise FileError(f"the model's {what} space{name} is only there as a pickle, which is not loaded: {WAY_OUT}")
    try:
        return reader(facts)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileError(f"the model's {what} space cannot be read from its plain facts ({error}): {WAY_OUT}") from None


WAY_OUT = "name the env that it was trained in, such as --env CartPole-v1"


def _box(facts: dict[str, Any]) -> spaces.Box:
    shape, kind = tuple(int(size) for size in facts["_shape"]), str(facts["dtype"])
    if kind not in BOX_TYPES or min(shape, default=1) < 1 or np.prod(shape, dtype=float) > MOST_NUMBERS:
        raise ValueError(f"a Box of {kind} with shape {shape}")
    low, high = (_bound(facts[name], shape) for name in ("low", "high"))
    return spaces.Box(low.astype(kind), high.astype(kind), dtype=np.dtype(kind).type)


def _bound(text: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers as NumPy prints them. Of more than 1,000 it prints the first and last ones: enough if all are equal."""
    numbers = [float(number) for number in NUMBER.findall(str(text))]
    if "..." in str(text) and len(set(numbers)) == 1:
        return np.full(shape, numbers[0])
    if len(numbers) != np.prod(shape, dtype=int):
        raise ValueError(f"{len(numbers)} bounds for shape {shape}")
    return np.array(numbers).reshape(shape)


def _discrete(facts: dict[str, Any]) -> spaces.Discrete:
    return spaces.Discrete(int(facts["n"]), start=int(facts.get("start") or 0))


def _multi_discrete(facts: dict[str, Any]) -> spaces.MultiDiscrete:
    nvec = [int(number) for number in re.findall(r"\d+", str(facts["nvec"]))]
    if tuple(facts["_shape"]) != (len(nvec),) or re.search(r"[1-9]", str(facts.get("start", "0"))):
        raise ValueError("a MultiDiscrete of several axes, or that does not start at 0")
    return spaces.MultiDiscrete(nvec)


def _multi_binary(facts: dict[str, Any]) -> spaces.MultiBinary:
    if len(shape := facts["_shape"]) != 1:
        raise ValueError(f"a MultiBinary of shape {shape}")
    return spaces.MultiBinary(int(shape[0]))


READERS = {"Box": _box, "Discrete": _discrete, "MultiDiscrete": _multi_discrete, "MultiBinary": _multi_binary}
