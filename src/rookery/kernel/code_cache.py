"""An on-disk cache of compiled code, keyed by a hash of everything that the code depends on.

The hash covers the bytecode of every function that the world calls, in any file, the constants they use, the versions
of the compilers, this package among them, and the CPU. An edit of any of these compiles the world again; an edit of
anything else does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rookery import forks
from rookery.files import open_plain, try_lock
from rookery.kernel.translate import closed_over, codes, used_globals
from rookery.user_dirs import cache_folder, read_own, write_own

PATIENCE = 120.0  # seconds to wait for another process that compiles the same code: no world takes as long
STDLIB = sysconfig.get_paths()["stdlib"]


@lru_cache
def sources_hash() -> str:
    """A hash of the compiler's own sources, this package: another version of it makes other code from the same world,
    and lays out memory in another way."""
    folder = Path(__file__).parent
    files = [*(folder.parent / name for name in ("atomics.py", "part_compiler.py")), *sorted(folder.glob("*.py"))]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def fingerprint(function: Any, circumstances: Any) -> str:
    """The cache key of `function` compiled under these circumstances."""
    digest = hashlib.sha256(repr(circumstances).encode())
    _add(digest, function, set(), set())
    return digest.hexdigest()


def _add(digest: Any, value: Any, seen: set[Any], names: set[str]) -> None:
    """Add a value to the hash. Of a module, only the attributes in `names` count."""
    inner = getattr(value, "py_func", value)  # the function behind a Numba dispatcher
    inner = getattr(inner, "_defn", inner)  # the function behind one of Numba's intrinsics
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
    digest.update(repr((function.__defaults__, function.__kwdefaults__, sorted(function.__dict__))).encode())
    mentioned = {name for code in codes(function.__code__) for name in code.co_names}
    for name, part in sorted({**used_globals(function), **closed_over(function)}.items()):
        digest.update(name.encode())
        _add(digest, part, seen, mentioned)


def _add_module(digest: Any, module: ModuleType, seen: set[Any], names: set[str]) -> None:
    """Add the attributes of a module that code reads. Of an installed library, only its name counts: its code changes
    only with its version."""
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
    """Add the functions and constants of a class, such as an enum."""
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


def find(world: str, key: str, make: Callable[[], tuple[str, bytes]]) -> tuple[str, bytes]:
    """The entry point's name and the object code, from disk, or from `make`, whose result is then stored. If several
    processes need the same code at once, one makes it and the others wait."""
    found = read(world, key)
    if found is not None:
        return found
    with _locked(_path(world, key)):
        found = read(world, key)
        if found is None:
            found = make()
            write(world, key, *found)
    return found


def read(world: str, key: str) -> tuple[str, bytes] | None:
    """The entry point's name and the object code; None if the file does not exist or is damaged."""
    try:
        path = _path(world, key)
        head, _, code = read_own(path).partition(b"\n") if path else (b"", b"", b"")
        facts = json.loads(head)
        if facts["sha256"] == hashlib.sha256(code).hexdigest():
            return facts["entry"], code
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    return None


def write(world: str, key: str, entry: str, code: bytes) -> None:
    """Store compiled code. If that fails, the next start compiles again."""
    facts = {"world": world, "entry": entry, "sha256": hashlib.sha256(code).hexdigest()}
    path = _path(world, key)
    with suppress(OSError):
        if path is not None:
            write_own(path, json.dumps(facts).encode() + b"\n" + code)


@contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """A lock between processes, on a best-effort basis: after PATIENCE, or where files cannot be locked, the block runs
    without it. The lock of a process that died is released by the kernel."""
    fd = -1
    with suppress(OSError):
        if path is not None:
            fd = open_plain(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
            forks.keep_from_children(fd)
            _wait_for_lock(fd, time.monotonic() + PATIENCE)
    try:
        yield
    finally:
        forks.close_kept(fd)


def _wait_for_lock(fd: int, deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            try_lock(fd)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return


def _path(world: str, key: str) -> Path | None:
    folder = cache_folder("kernels")
    return None if folder is None else folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '-', world)[:80]}-{key[:24]}.kernel"
