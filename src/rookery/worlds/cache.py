"""Compiled worlds on disk, found again by everything that went into them.

The key is a hash over the code of every function the world calls, in whatever file it stands, over the constants they
use, and over the compiler and the processor. So an edit anywhere is noticed, and nothing else compiles again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sysconfig
import tempfile
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rookery.places import cache_folder
from rookery.worlds.translate import closed_over, used_globals

STDLIB = sysconfig.get_paths()["stdlib"]


def directory() -> Path:
    """Where compiled kernels are kept."""
    return cache_folder("kernels")


def fingerprint(function: Any, circumstances: Any) -> str:
    """A name for what compiling `function` under these circumstances gives."""
    digest = hashlib.sha256(repr(circumstances).encode())
    seen: set[int] = set()
    _add(digest, function, seen)
    return digest.hexdigest()


def _add(digest: Any, value: Any, seen: set[int]) -> None:
    inner = getattr(value, "py_func", value)  # of a function that its author compiled
    if isinstance(inner, FunctionType):
        if id(inner) in seen:
            return
        seen.add(id(inner))
        _add_code(digest, inner.__code__)
        digest.update(repr((inner.__defaults__, inner.__kwdefaults__)).encode())
        for name, part in sorted({**used_globals(inner), **closed_over(inner)}.items()):
            digest.update(name.encode())
            _add(digest, part, seen)
    elif isinstance(inner, (ModuleType, type)):
        _add_namespace(digest, inner, seen)
    elif hasattr(inner, "tobytes") and hasattr(inner, "dtype"):
        digest.update(f"{inner.dtype}{inner.shape}".encode() + inner.tobytes())
    else:
        digest.update(repr(inner).encode())


def _add_namespace(digest: Any, space: Any, seen: set[int]) -> None:
    """What a module or a class (an enum, say) has to offer: its functions and constants. Of installed libraries, only
    the name: their code does not change between two starts, or their version does."""
    digest.update(space.__name__.encode())
    path = getattr(space, "__file__", None) or ""
    if id(space) in seen or (
        isinstance(space, ModuleType) and (not path or "site-packages" in path or path.startswith(STDLIB))
    ):
        return
    seen.add(id(space))
    for name, part in sorted(vars(space).items()):
        simple = isinstance(part, (bool, int, float, str, tuple)) or hasattr(part, "tobytes")
        if not name.startswith("__") and (simple or isinstance(getattr(part, "py_func", part), FunctionType)):
            digest.update(name.encode())
            _add(digest, part, seen)


def _add_code(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    counts = code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, counts)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())


def read(world: str, key: str) -> tuple[str, bytes] | None:
    """The entry point's name and the object code, if they are there and whole."""
    try:
        head, _, code = _path(world, key).read_bytes().partition(b"\n")
        facts = json.loads(head)
        if facts["sha256"] == hashlib.sha256(code).hexdigest():
            return facts["entry"], code
    except (OSError, ValueError, KeyError):
        pass
    return None


def write(world: str, key: str, entry: str, code: bytes) -> None:
    """Keep compiled code for the next start; where that is impossible, the next start compiles again."""
    facts = {"world": world, "entry": entry, "sha256": hashlib.sha256(code).hexdigest()}
    target = _path(world, key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, beside = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(facts).encode() + b"\n" + code)
        os.replace(beside, target)  # at once, so that a second process never sees half of it
    except OSError:
        return


def _path(world: str, key: str) -> Path:
    return directory() / f"{world}-{key[:24]}.kernel"
