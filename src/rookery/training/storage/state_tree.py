"""State trees, split into arrays and plain values, and joined again.

A tree is a nested dict with str keys. Its leaves are NumPy arrays, int, float, bool, str, None, or lists of such plain
values. NumPy's scalars become Python's numbers; everything else is refused, so that a loaded tree equals the saved one.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from rookery.errors import CheckpointError

Tree = dict[str, Any]
LARGEST_INT = 2**63
PLAIN = (bool, int, float, str, type(None))
DTYPES = {  # as safetensors calls them
    "bool": "BOOL", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "int8": "I8", "int16": "I16",
    "int32": "I32", "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip


def split_arrays(tree: Tree) -> tuple[Tree, dict[str, np.ndarray]]:
    """The tree with None in place of each array, and the arrays by their dotted path."""
    arrays: dict[str, np.ndarray] = {}
    return _branch(tree, (), arrays), arrays


def join_arrays(values: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """The inverse of `split_arrays`; fills `values` and returns it."""
    for name, array in arrays.items():
        *folders, last = (unquote(key, errors="surrogatepass") for key in name.split("."))
        branch = values
        for key in folders:
            branch = branch[key]
        branch[last] = array
    return values


def check_types(saved: Any, own: Any, path: tuple[str, ...] = ()) -> None:
    """Refuse a tree with a value of another type than `own`, a tree of the same form, has there. Arrays must have the
    same shape, unless that of `own` is empty. Keys that `own` does not have are not checked."""
    if isinstance(own, dict):
        for key in own.keys() & saved.keys() if isinstance(saved, dict) else ():
            check_types(saved[key], own[key], (*path, key))
    if isinstance(own, list) and isinstance(saved, list):
        _check_items(saved, own, path)
    if not _is_like(saved, own):
        raise CheckpointError(f"{_where(path)} should hold a {type(own).__name__}, and holds {saved!r:.60}")


def _is_like(saved: Any, own: Any) -> bool:
    if own is None:  # no value yet
        return type(saved) in (int, float, type(None))
    if isinstance(own, np.ndarray):
        same = isinstance(saved, np.ndarray) and saved.dtype == own.dtype
        return same and (saved.shape == own.shape or not own.size)
    if isinstance(own, (bool, np.bool_)):
        return type(saved) is bool
    if isinstance(own, (int, float, np.number)):
        return type(saved) in (int, float) and (type(saved) is float or abs(saved) < LARGEST_INT)
    return type(saved) is type(own)


def _check_items(saved: list[Any], own: list[Any], path: tuple[str, ...]) -> None:
    """A list keeps its number of items; one that is empty in `own` may hold any number of plain values."""
    if own and len(saved) != len(own):
        raise CheckpointError(f"{_where(path)} should hold {len(own)} items, and holds {len(saved)}")
    if not own and not all(type(item) in PLAIN for item in saved):
        raise CheckpointError(f"{_where(path)} should hold plain values, and holds {saved!r:.60}")
    for item in saved if own else ():
        check_types(item, own[0], path)


def escape(key: str) -> str:
    """A key as a part of a dotted path or of a file name."""
    if key == "__metadata__":  # which safetensors reserves
        return "%5F_metadata__"
    return quote(key, safe="", errors="surrogatepass").replace(".", "%2E")


def _branch(branch: Tree, path: tuple[str, ...], arrays: dict[str, np.ndarray]) -> Tree:
    values: Tree = {}
    for key, value in branch.items():
        if type(key) is not str:
            raise CheckpointError(f"{_where(path)}: the key {key!r} is not a str, and only str keys can be saved")
        here = (*path, key)
        if isinstance(value, dict):
            values[key] = _branch(value, here, arrays)
        elif isinstance(value, np.ndarray):
            arrays[".".join(map(escape, here))] = _checked(value, here)
            values[key] = None
        else:
            values[key] = _plain(value, here)
    return values


def _plain(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, (np.bool_, np.integer, np.floating)) and not isinstance(value, np.longdouble):
        return value.item()
    if type(value) in PLAIN:
        return value
    if type(value) is list:
        return [_plain(item, (*path, str(i))) for i, item in enumerate(value)]
    if isinstance(value, tuple):
        raise CheckpointError(f"{_where(path)}: a tuple would be loaded as a list; save a list")
    hint = " inside a list" if isinstance(value, (np.ndarray, dict)) else ""
    raise CheckpointError(
        f"{_where(path)}: a {type(value).__name__}{hint} cannot be saved; trees hold arrays, numbers, strings, None, "
        "and lists of all but arrays"
    )


def _checked(array: np.ndarray, path: tuple[str, ...]) -> np.ndarray:
    if type(array) not in (np.ndarray, np.memmap):
        raise CheckpointError(f"{_where(path)}: a {type(array).__name__} cannot be saved; give a plain NumPy array")
    if array.dtype.newbyteorder("=").name not in DTYPES:
        kind = "Python objects" if array.dtype.hasobject else f"dtype {array.dtype}"
        raise CheckpointError(f"{_where(path)}: an array of {kind} cannot be saved; valid are {', '.join(DTYPES)}")
    return array


def _where(path: tuple[str, ...]) -> str:
    return f"state tree at {'.'.join(path)!r}" if path else "state tree"
