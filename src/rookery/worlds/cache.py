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
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rookery.places import cache_folder
from rookery.worlds.translate import closed_over, codes, used_globals

STDLIB = sysconfig.get_paths()["stdlib"]


def directory() -> Path:
    """Where compiled kernels are kept."""
    return cache_folder("kernels")


def fingerprint(function: Any, circumstances: Any) -> str:
    """A name for what compiling `function` under these circumstances gives."""
    digest = hashlib.sha256(repr(circumstances).encode())
    _add(digest, function, set(), set())
    return digest.hexdigest()


def _add(digest: Any, value: Any, seen: set[Any], names: set[str]) -> None:
    """Count a value in, as code reads it that mentions these names."""
    inner = getattr(value, "py_func", value)  # of a function that its author compiled
    inner = getattr(inner, "_defn", inner)  # of a function that writes code, one of Numba's intrinsics
    if isinstance(inner, FunctionType):
        _add_function(digest, inner, seen)
    elif isinstance(inner, ModuleType):
        _add_module(digest, inner, seen, names)
    elif isinstance(inner, type):
        _add_class(digest, inner, seen)
    elif hasattr(inner, "tobytes") and hasattr(inner, "dtype"):
        digest.update(f"{inner.dtype}{inner.shape}".encode() + inner.tobytes())
    elif isinstance(inner, tuple):
        digest.update(type(inner).__name__.encode())
        for part in inner:
            _add(digest, part, seen, names)
    else:
        digest.update(repr(inner).encode())


def _add_function(digest: Any, function: FunctionType, seen: set[Any]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    _add_code(digest, function.__code__)
    digest.update(repr((function.__defaults__, function.__kwdefaults__)).encode())
    mentioned = {name for code in codes(function.__code__) for name in code.co_names}
    for name, part in sorted({**used_globals(function), **closed_over(function)}.items()):
        digest.update(name.encode())
        _add(digest, part, seen, mentioned)


def _add_module(digest: Any, module: ModuleType, seen: set[Any], names: set[str]) -> None:
    """What code takes out of a module. Of installed libraries, only the name: their code does not change between two
    starts, or their version does."""
    digest.update(module.__name__.encode())
    path = getattr(module, "__file__", None) or ""
    if not path or "site-packages" in path or path.startswith(STDLIB):
        return
    for name in sorted(names & vars(module).keys()):
        if (id(module), name) not in seen:
            seen.add((id(module), name))
            digest.update(name.encode())
            _add(digest, vars(module)[name], seen, names)


def _add_class(digest: Any, space: type, seen: set[Any]) -> None:
    """What a class (an enum, say) has to offer: its functions and constants."""
    digest.update(space.__name__.encode())
    if id(space) in seen:
        return
    seen.add(id(space))
    for name, part in sorted(vars(space).items()):
        simple = isinstance(part, (bool, int, float, str, tuple, Enum)) or hasattr(part, "tobytes")
        if not name.startswith("__") and (simple or isinstance(getattr(part, "py_func", part), FunctionType)):
            digest.update(name.encode())
            _add(digest, part, seen, set())


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
