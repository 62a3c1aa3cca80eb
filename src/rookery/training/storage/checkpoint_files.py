"""The files of a checkpoint, and the manifest with their sizes and hashes."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from rookery.console import printable
from rookery.errors import CheckpointError
from rookery.files import named, read_plain
from rookery.training.storage.state_tree import DTYPES

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
