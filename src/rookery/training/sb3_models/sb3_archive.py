"""Reads the zip file of a Stable-Baselines3 model. It may come from anyone: of its `data` only the plain JSON is used,
weights are read by `torch.load(weights_only=True)`, and nothing is unpickled, executed or written to disk."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch

from rookery.console import printable
from rookery.errors import FileError

MOST_JSON = 1 << 26  # bytes
MOST_WEIGHTS = 1 << 30
MOST_MEMBERS = 1000
MOST_RATIO = 100  # of a member's size to its compressed size; JSON shrinks to a twentieth, weights hardly at all
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)
WEIGHTS = "policy.pth"


@dataclass(frozen=True)
class SB3Archive:
    """What is read of a model's zip file."""

    name: str  # in messages
    facts: dict[str, Any]  # the JSON in `data`; what is pickled inside stays the text it is
    weights: dict[str, np.ndarray]  # the policy's, by SB3's names


def read_sb3_archive(path: Path) -> SB3Archive:
    """Read the zip file that `model.save(path)` of Stable-Baselines3 wrote.

    Raises:
        FileError: It is no such file, or one that no honest program wrote.
    """
    name = printable(path)
    if not path.is_file():
        raise FileError(f"there is no file {name}")
    if path.suffix.lower() in (".pkl", ".pickle"):
        raise FileError(f"{name} is a pickle, which is never loaded; name the zip file that model.save() wrote")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, name)
            facts = _facts(_member(archive, "data", MOST_JSON, name), name)
            weights = _weights(_member(archive, WEIGHTS, MOST_WEIGHTS, name), name)
    except FileError:
        raise
    except UNREADABLE as error:
        raise FileError(f"{name} is no zip file that can be read: {printable(str(error))[:200]}") from None
    return SB3Archive(name, facts, weights)


def _check_members(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse what no honest model has, even if it would not be read."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise FileError(f"{name} holds {len(members):,} files, and a model of Stable-Baselines3 about six")
    for member in members:
        inner = PurePosixPath(member.filename.replace("\\", "/"))
        if inner.is_absolute() or ".." in inner.parts or ":" in member.filename:
            raise FileError(
                f"{name} names a file outside of itself, {printable(member.filename)[:80]!r}: it is not read"
            )
    if len({member.filename for member in members}) < len(members):
        raise FileError(f"{name} holds two files of one name: it is not read")


def _member(archive: zipfile.ZipFile, member: str, most: int, name: str) -> bytes:
    """One file inside, unless it is larger than it can be."""
    try:
        info = archive.getinfo(member)
    except KeyError:
        raise FileError(f"{name} is no model of Stable-Baselines3: there is no {member!r} inside") from None
    if info.file_size > most or info.file_size > MOST_RATIO * max(info.compress_size, 1 << 14):
        raise FileError(
            f"{name} is not read: {member!r} would grow from {info.compress_size:,} to {info.file_size:,} bytes"
        )
    with archive.open(info) as file:  # reads no more than the size that was checked
        return file.read(most)


def _facts(text: bytes, name: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: its 'data' is no JSON: {printable(str(error))[:200]}") from None
    if not isinstance(facts, dict):
        raise FileError(f"{name}: its 'data' should be a JSON object, got a {type(facts).__name__}")
    return facts


def _weights(contents: bytes, name: str) -> dict[str, np.ndarray]:
    """The arrays of a state dict; torch itself refuses pickles that do more than hold tensors."""
    _check_torch_file(contents, name)
    try:
        state = torch.load(io.BytesIO(contents), map_location="cpu", weights_only=True)
    except (*UNREADABLE, pickle.UnpicklingError, LookupError, TypeError, AttributeError, struct.error) as error:
        reason = printable(str(error).partition("\n")[0])[:200]
        raise FileError(
            f"{name}: its {WEIGHTS} holds more than weights, or is damaged, so that torch does not load it with "
            f"weights_only=True, and nothing else is tried: {reason}"
        ) from None
    if not isinstance(state, dict):
        raise FileError(f"{name}: its {WEIGHTS} should hold a dict of tensors, got a {type(state).__name__}")
    return {_checked_name(key, name): _array(key, value, name) for key, value in state.items()}


def _check_torch_file(contents: bytes, name: str) -> None:
    """torch's files are zip files too, whose members are not compressed."""
    if not zipfile.is_zipfile(io.BytesIO(contents)):
        raise FileError(f"{name}: its {WEIGHTS} is no file of torch 1.6 or later: load and save it with a newer SB3")
    with zipfile.ZipFile(io.BytesIO(contents)) as inner:
        if any(member.compress_type != zipfile.ZIP_STORED for member in inner.infolist()):
            raise FileError(f"{name}: its {WEIGHTS} is compressed inside, as torch never writes it: it is not read")
        if sum(member.file_size for member in inner.infolist()) > len(contents):
            raise FileError(f"{name}: its {WEIGHTS} holds more than its own size: it is not read")


def _checked_name(key: Any, name: str) -> str:
    if not isinstance(key, str):
        raise FileError(f"{name}: its {WEIGHTS} should have names of weights, got {key!r:.60}")
    return key


def _array(key: str, value: Any, name: str) -> np.ndarray:
    """A tensor as an array: only a dense one of float32 whose numbers are all in the file."""
    dense = isinstance(value, torch.Tensor) and value.layout is torch.strided and value.dtype is torch.float32
    if not dense or not value.is_contiguous() or value.numel() * 4 > MOST_WEIGHTS:
        kind = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise FileError(f"{name}: the weights {key!r:.80} should be a dense float32 tensor, got {kind}")
    array = value.detach().numpy()
    if not np.isfinite(array).all():
        raise FileError(f"{name}: the weights {key!r:.80} are not all finite")
    return array
