"""State trees as bytes, for another process of the same run: what a checkpoint's files hold, in one piece."""

from __future__ import annotations

import json

from safetensors.numpy import load, save

from rookery.training.storage.state_tree import Tree, join_arrays, split_arrays


def tree_to_bytes(tree: Tree) -> bytes:
    """
    >>> bytes_to_tree(tree_to_bytes({"steps": 3, "part": {"name": "a"}}))
    {'steps': 3, 'part': {'name': 'a'}}
    """
    values, arrays = split_arrays(tree)
    text = json.dumps(values).encode()
    return len(text).to_bytes(8, "little") + text + save({name: array.copy() for name, array in arrays.items()})


def bytes_to_tree(data: bytes) -> Tree:
    """The inverse of `tree_to_bytes`."""
    length = int.from_bytes(data[:8], "little")
    return join_arrays(json.loads(data[8 : 8 + length]), load(data[8 + length :]))
