"""The files of a checkpoint, and the manifest with their sizes and hashes."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rookery.console import printable
from rookery.errors import CheckpointError
from rookery.files import named, read_plain

VERSION = 1
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 1 << 20
# What using a file raises that is complete, but was not written by rookery: somebody may have meant to do harm with it.
MALFORMED = (
    SafetensorError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError, MemoryError,
    AssertionError,
)  # fmt: skip
LONGEST_ERROR = 200  # characters of such an error that are shown


def short_text(error: BaseException) -> str:
    """The beginning of such an error's message."""
    return printable(f"{type(error).__name__}: {error}")[:LONGEST_ERROR]


def write_file(path: Path, parts: Iterable[Any]) -> dict[str, Any]:
    """Write a file and sync it to the disk; returns its size and hash, for the manifest."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file, named(path):
        for part in parts:
            digest.update(part)
            size += file.write(part)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": size, "sha256": digest.hexdigest()}


def write_manifest(folder: Path, files: dict[str, Any], score: float | None, run: str | None = None) -> None:
    """`run` is the id of the run that it belongs to; only that run may remove it."""
    manifest = {"version": VERSION, "score": score, "files": files}
    write_file(folder / MANIFEST, [_with_hash(manifest if run is None else manifest | {"run": run})])


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, checked by its own hash; its list of files is compared with those in the folder."""
    path = folder / MANIFEST
    raw = read_contents(path, LARGEST_MANIFEST)
    manifest = parse_json(path, raw)
    if (version := manifest.get("version")) != VERSION:
        raise CheckpointError(f"{printable(path)} has version {version!r}, this rookery reads version {VERSION}")
    manifest.pop("sha256", None)
    if _with_hash(manifest) != raw:
        raise CheckpointError(f"{printable(path)} is damaged: it does not match its own sha256")
    listed, there = {*manifest["files"], MANIFEST}, {path.name for path in folder.iterdir()}
    for name in sorted(listed ^ there):
        raise CheckpointError(
            f"{printable(folder / name)} is {'missing' if name in listed else 'not part of the checkpoint'}"
        )
    return manifest


def verified_path(path: Path, expected: dict[str, Any], most: int) -> Path:
    """The path of a file, whose size and hash are checked; it may have at most `most` bytes."""
    size = _regular_file(path).stat().st_size
    if size > most:
        raise CheckpointError(f"{printable(path)} is larger than any file of its kind: {size:,} bytes")
    if size != expected["bytes"]:
        raise CheckpointError(f"{printable(path)} is damaged: it has {size} bytes instead of {expected['bytes']}")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != expected["sha256"]:
            raise CheckpointError(f"{printable(path)} is damaged: its sha256 is not the one in {MANIFEST}")
    return path


def read_contents(path: Path, most: int) -> bytes:
    """The contents of a file of a checkpoint, which may have at most `most` bytes."""
    return read_plain(_regular_file(path), most)


def safetensors(arrays: dict[str, np.ndarray]) -> Iterator[Any]:
    """The bytes of a safetensors file, array by array. The library's own writer renames a temporary file unsynced, and
    does not tell a full disk from other errors."""
    widest_first = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)  # so that all of them are aligned
    header, end = {}, 0
    for name in widest_first:
        array, start = arrays[name], end
        end = start + array.nbytes
        dtype = DTYPES[array.dtype.newbyteorder("=").name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in widest_first:
        little = arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False)
        yield np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def as_json(value: Any) -> bytes:
    try:
        return json.dumps(value).encode() + b"\n"  # without indent: ten times as fast
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the state tree cannot be written as JSON: {error}") from error


def parse_json(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{printable(path)} is damaged: it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{printable(path)} is damaged: it holds a {type(value).__name__}, not an object")
    return value


def _with_hash(manifest: dict[str, Any]) -> bytes:
    """A manifest with the hash of its other keys, in the only form that is accepted: no byte can change unnoticed."""
    return as_json(manifest | {"sha256": hashlib.sha256(as_json(manifest)).hexdigest()})


def _regular_file(path: Path) -> Path:
    if not stat.S_ISREG(path.lstat().st_mode):  # opening a pipe would hang
        raise CheckpointError(f"{printable(path)} is not a plain file")
    return path


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
