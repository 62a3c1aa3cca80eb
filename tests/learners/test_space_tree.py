"""Spaces to trees and back."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rookery.errors import CheckpointError, SpaceError
from rookery.learners.plain_spaces import from_tree, to_tree

SPACES = [
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 3], start=[1, -1]),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary([2, 3]),
    spaces.Box(-1, 1, ()),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.Box(np.array([-1.0, -np.inf]), np.array([np.inf, 2.0]), dtype=np.float64),
    spaces.Tuple((spaces.Discrete(2), spaces.Dict(a=spaces.Box(-1, 1, (1,)), b=spaces.Tuple(())))),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_survives(space: spaces.Space) -> None:
    """What comes back is equal, down to types and bounds."""
    again = from_tree(to_tree(space))
    assert again == space
    assert again.dtype == space.dtype


def test_the_order_of_a_dict_survives() -> None:
    """Equal Dicts may differ in order, by which nets read: it comes back as it was, sorted or not."""
    space = spaces.Dict(
        OrderedDict(z=spaces.Discrete(2), a=spaces.Dict(OrderedDict(y=spaces.Discrete(3), b=spaces.Discrete(4))))
    )
    again = from_tree(to_tree(space))
    assert list(again.keys()) == ["z", "a"]
    assert list(again["a"].keys()) == ["y", "b"]


def plain(tree: Any) -> bool:
    if isinstance(tree, dict):
        return all(isinstance(key, str) and plain(part) for key, part in tree.items())
    if isinstance(tree, list):
        return all(type(part) in (int, float, bool, str) for part in tree)
    return isinstance(tree, np.ndarray) or type(tree) in (int, float, bool, str)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_tree_holds_what_checkpoints_take(space: spaces.Space) -> None:
    """Nested dicts of arrays, plain numbers, texts and lists of these; no NumPy scalars."""
    assert plain(to_tree(space))


def test_the_tree_is_a_copy() -> None:
    """Changing a tree does not change the space it came from."""
    space = spaces.Box(-1, 1, (2,))
    to_tree(space)["low"][:] = 7
    assert space.low.tolist() == [-1, -1]


def test_what_cannot_be_saved_is_named() -> None:
    """A Text is rejected on the way out, an unknown kind on the way in."""
    with pytest.raises(SpaceError, match="a Text space cannot be saved"):
        to_tree(spaces.Tuple((spaces.Text(3),)))
    with pytest.raises(CheckpointError, match="'Blob'"):
        from_tree({"kind": "Blob"})
