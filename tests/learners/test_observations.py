"""Observations of any space as leaves: their kinds, their storage, their order."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.errors import SpaceError
from rookery.learners.action_spaces import mask_of
from rookery.learners.observations import MASK_KEY, Leaf, leaves_of, split, stack

CPU = torch.device("cpu")
BYTE = {"low": 0, "high": 255, "dtype": np.uint8}


def only(space: spaces.Space) -> Leaf:
    (leaf,) = leaves_of(space)
    return leaf


@pytest.mark.parametrize(
    ("space", "kind", "dtype", "width"),
    [
        (spaces.Box(-1, 1, (3,)), "vector", torch.float32, 3),
        (spaces.Box(-1, 1, ()), "vector", torch.float32, 1),
        (spaces.Box(-1, 1, (2, 3), np.float64), "vector", torch.float32, 6),
        (spaces.Box(0, 9, (4,), np.int64), "vector", torch.float32, 4),
        (spaces.Box(shape=(128,), **BYTE), "vector", torch.float32, 128),
        (spaces.MultiBinary([2, 2]), "vector", torch.float32, 4),
        (spaces.Discrete(5, start=2), "choice", torch.int64, 5),
        (spaces.MultiDiscrete([2, 3]), "choice", torch.int64, 5),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), "choice", torch.int64, 14),
    ],
    ids=str,
)
def test_kinds(space: spaces.Space, kind: str, dtype: torch.dtype, width: int) -> None:
    """Each simple space is one leaf, of a kind, a storage type and a width for nets."""
    leaf = only(space)
    assert (leaf.kind, leaf.dtype, leaf.width, leaf.shape) == (kind, dtype, width, space.shape)


@pytest.mark.parametrize(
    ("shape", "channels_last"),
    [
        ((84, 84, 3), True),
        ((210, 160, 3), True),
        ((3, 84, 84), False),
        ((4, 210, 160), False),
        ((8, 8, 1), True),
        ((1, 8, 8), False),
        ((8, 8, 111), True),  # PettingZoo's chess
        ((12, 8, 8), False),
    ],
)
def test_channels_are_found(shape: tuple[int, ...], channels_last: bool) -> None:
    """Whether channels come first or last is read from the shape, also when there are more of them than pixels."""
    leaf = only(spaces.Box(0, 1, shape))
    assert (leaf.kind, leaf.channels_last) == ("image", channels_last)


@pytest.mark.parametrize("shape", [(7, 7, 3), (3, 7, 7), (100, 4, 4), (8, 3, 100), (20, 4, 20), (2, 2, 2)])
def test_what_is_too_small_for_an_image_is_a_vector(shape: tuple[int, ...]) -> None:
    """Three dimensions make an image only with at least eight pixels a side."""
    assert only(spaces.Box(0, 1, shape)).kind == "vector"


def test_bytes_stay_bytes() -> None:
    """Pixels of one byte are stored as such, others as floats."""
    assert only(spaces.Box(shape=(9, 9, 3), **BYTE)).dtype == torch.uint8
    assert only(spaces.Box(0, 1, (9, 9, 3))).dtype == torch.float32


def test_two_dimensions_of_bytes_are_a_picture() -> None:
    """A grey picture needs no third axis; a matrix of floats is not a picture."""
    assert only(spaces.Box(shape=(20, 30), **BYTE)).kind == "image"
    assert only(spaces.Box(shape=(20, 7), **BYTE)).kind == "vector"
    assert only(spaces.Box(0, 1, (20, 30))).kind == "vector"


NESTED = spaces.Dict(
    OrderedDict(
        senses=spaces.Tuple((spaces.Box(-9, 9, (2,)), spaces.Dict(touch=spaces.Discrete(4)))),
        body=spaces.MultiBinary(3),
    )
)


def test_nested_spaces_are_walked_in_their_own_order() -> None:
    """Leaves stand in the order of the space, which need not be sorted, and know their path."""
    assert [leaf.name for leaf in leaves_of(NESTED)] == ["senses.0", "senses.1.touch", "body"]


def test_split_follows_the_paths() -> None:
    """A batch of a nested observation becomes one tensor a leaf, of the leaf's type."""
    batch = {
        "body": np.ones((5, 3), np.int8),
        "senses": (np.arange(10.0).reshape(5, 2), {"touch": np.arange(5) % 4}),
    }
    parts = split(leaves_of(NESTED), batch, CPU)
    assert [part.shape for part in parts] == [(5, 2), (5,), (5, 3)]
    assert [part.dtype for part in parts] == [torch.float32, torch.int64, torch.float32]
    assert parts[0][4].tolist() == [8.0, 9.0]


def test_stack_agrees_with_split() -> None:
    """Single observations become the same leaves as a batch of them."""
    leaves = leaves_of(NESTED)
    NESTED.seed(1)
    rows = [NESTED.sample() for _ in range(3)]
    batch = {
        "senses": (
            np.stack([r["senses"][0] for r in rows]),
            {"touch": np.stack([r["senses"][1]["touch"] for r in rows])},
        ),
        "body": np.stack([r["body"] for r in rows]),
    }
    for one, other in zip(stack(leaves, rows, CPU), split(leaves, batch, CPU), strict=True):
        assert torch.equal(one, other)


def test_odd_memory_layouts_are_read_right() -> None:
    """Reversed and strided views, which torch does not take, give their own numbers; so does read-only memory."""
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    array.flags.writeable = False
    assert torch.equal(split(leaves_of(spaces.Box(-1, 99, (3,))), array, CPU)[0], torch.arange(12.0).reshape(4, 3))
    (part,) = split(leaves_of(spaces.Box(-1, 99, (3,))), array[::-1], CPU)
    np.testing.assert_array_equal(part.numpy(), array[::-1])


@pytest.mark.parametrize(
    "space", [spaces.Text(5), spaces.Graph(spaces.Discrete(2), None), spaces.Sequence(spaces.Discrete(2))]
)
def test_unreadable_spaces_are_refused(space: spaces.Space) -> None:
    """The error names the kind of space and, inside others, the part."""
    with pytest.raises(SpaceError, match=f"the observation is a {type(space).__name__}, which no net here can read"):
        leaves_of(space)
    with pytest.raises(SpaceError, match=r"the part 'a\.0' of the observation"):
        leaves_of(spaces.Dict(a=spaces.Tuple((space,))))


def test_the_mask_is_no_observation() -> None:
    """A Dict's "action_mask" is kept from the nets; deeper ones are nobody's mask, and are seen."""
    mask = spaces.MultiBinary(2)
    space = spaces.Dict({MASK_KEY: mask, "view": spaces.Dict({MASK_KEY: mask, "x": spaces.Discrete(2)})})
    assert [leaf.name for leaf in leaves_of(space)] == ["view.action_mask", "view.x"]


def test_masks_are_found_in_observations_and_infos() -> None:
    """In a Dict observation first, else in the infos, as one array or as one a row; else there is none."""
    allowed = np.array([[1, 0], [1, 1]], np.int8)
    rows = np.empty(2, object)
    rows[:] = list(allowed)
    for mask in (
        mask_of({MASK_KEY: allowed, "x": 1}, {MASK_KEY: 1 - allowed}),
        mask_of(np.zeros(2), {MASK_KEY: allowed}),
        mask_of(np.zeros(2), {MASK_KEY: rows}),
    ):
        assert mask is not None and mask.dtype == np.bool_
        np.testing.assert_array_equal(mask, allowed == 1)
    assert mask_of({"x": 1}, {}) is None
    assert mask_of(np.zeros(2)) is None
