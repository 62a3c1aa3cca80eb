"""Code in files of the user's own: importing "file.py:Name" by path, and the name of a class or function."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from rookery.errors import OptionError, UsageError, WorldError
from rookery.gate import demand, module_name
from rookery.once import exclusive

_being_imported: list[Path] = []
_of_session: dict[str, Any] = {}  # classes and functions that have no name in a file
_ended_by: dict[Path, str] = {}  # the verb at which the import of a script ended
STDLIB = sysconfig.get_paths()["stdlib"] + "/"
INSTALLED = re.compile(r"/(site-packages|dist-packages)/")
WRAPPERS = "gymnasium.wrappers"  # where classes are known by name: "gymnasium.wrappers:ClipAction"
LIBRARY = re.compile(r"/lib(64)?/python[0-9.]*/")
OBJECT = "object:"  # begins the recorded name of what only a Python session has
SHIPPED = "ROOKERY_SHIPPED"  # the folder of files that were sent to this machine, for a process and those it starts


def find_in_file(name: str, what: str) -> Any:
    """The class or function that "file.py:Name" names, which must be written in that file, or "object:NAME" in this
    session, or a wrapper of Gymnasium's. `what` is the key that names it, for the error message. The file is not
    imported again if this process has it: a script would run again."""
    if name.startswith(OBJECT):
        return _in_this_session(name, what)
    path, _, attribute = name.rpartition(":")
    if path == WRAPPERS and isinstance(found := getattr(import_module(WRAPPERS), attribute, None), type):
        return found
    if not path:
        known = hasattr(import_module(WRAPPERS), last := name.rpartition(".")[2])
        raise OptionError(f"{what}: {name!r} should be {f'{WRAPPERS}:{last}' if known else 'my_file.py:Name'}")
    if not path.endswith(".py") or not file_here(path).is_file():
        raise OptionError(f"{what}: {name!r}: there is no file {path!r}; give my_file.py:Name")
    if INSTALLED.search(path):
        raise OptionError(
            f"{what}: {attribute} is in an installed package: use it in a file of your own, as in `class My{attribute}"
            f"({attribute}): pass`, and give that"
        )
    demand("code", path, what)
    found = _in_this_process(path, attribute)
    if found is not None:
        return found
    found = getattr(load_file(path, what), attribute, None)
    if not written_in(path, found):
        above = _ended_by.get(file_here(path))
        where = f", or only below its call of {above}" if above else ""
        raise OptionError(f"{what}: {name!r}: {path} has no class or function {attribute!r} of its own{where}")
    return found


def name_in_file(code: Any) -> str | None:
    """The name of a class or function at the top of a file, "file.py:Name"; None if it has none, as a lambda."""
    name = getattr(code, "__qualname__", "")
    if code is not None and code is getattr(sys.modules.get(WRAPPERS), name or "-", None):
        return f"{WRAPPERS}:{name}"
    try:
        file = inspect.getsourcefile(code)
    except (TypeError, OSError):
        return None
    return f"{file}:{name}" if file and name.isidentifier() and _is_written_in(Path(file), name) else None


def _is_written_in(file: Path, name: str) -> bool:
    """Whether a file has a class or function of this name: a notebook's cells are in no file."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(rf"^\s*(class|(async )?def)\s+{name}\b", text, re.MULTILINE) is not None


def keep_for_session(code: Any) -> str:
    """A name, "object:NAME", for a class or function that has none in a file, by which `find_in_file` finds it in this
    process. It has a hash of the compiled code, so that two of one name are not mistaken for each other."""
    _of_session[name := _session_name(code)] = code
    return name


def _in_this_session(name: str, what: str) -> Any:
    """What this process has kept; or after a restart, a class that its script or notebook has defined again."""
    title = name.removeprefix(OBJECT).rpartition("-")[0]
    again = getattr(sys.modules.get("__main__"), title, None)
    if name in _of_session:
        return _of_session[name]
    if isinstance(again, type) and _session_name(again) == name:
        return again
    changed = f", and the {title} of this one has other code" if isinstance(again, type) else ""
    raise UsageError(
        f"{what}: {title} was an object of another Python session{changed}: define a class again before the call, or "
        "give a function again, as the same argument of rookery.resume(); in the shell, --set names another"
    )


def _session_name(code: Any) -> str:
    return f"{OBJECT}{_title(code)}-{_fingerprint(code):x}"


def _title(code: Any) -> str:
    name = getattr(code, "__qualname__", type(code).__qualname__).rpartition(".")[2]
    return "lambda" if name == "<lambda>" else name


def _fingerprint(code: Any) -> int:
    """Of a function's compiled code and the values that it has captured, or of all methods of a class."""
    if isinstance(code, type):
        parts = [_fingerprint(part) for _, part in sorted(vars(code).items()) if inspect.isfunction(part)]
        return zlib.crc32(repr(parts).encode())
    if not inspect.isfunction(code):
        return zlib.crc32(repr((_fingerprint(type(code)), sorted(vars(code).items()))).encode())
    compiled, captured = code.__code__, [repr(cell.cell_contents) for cell in code.__closure__ or ()]
    captured += [repr(code.__globals__[name]) for name in compiled.co_names if _is_data(code.__globals__.get(name))]
    constants = [item for item in compiled.co_consts if not inspect.iscode(item)]
    return zlib.crc32(repr((compiled.co_code, constants, compiled.co_names, captured)).encode())


def _is_data(value: Any) -> bool:
    return isinstance(value, (int, float, str, list, tuple, dict))


def _in_this_process(path: str, attribute: str) -> Any:
    """The class or function of a file that is the running script, or was imported by its own name; None otherwise."""
    file = file_here(path)
    for name in ("__main__", file.stem):
        module = sys.modules.get(name)
        if module is None or not getattr(module, "__file__", None) or Path(str(module.__file__)).resolve() != file:
            continue
        found = getattr(module, attribute, None)
        if callable(found) and getattr(found, "__module__", None) == name and not INSTALLED.search(str(file)):
            return found
    return None


def written_in(path: str, found: Any) -> bool:
    """Whether a class or function was defined in this file, a file of the user's own, and not only imported there."""
    own = getattr(found, "__module__", None) == module_name(path)
    return callable(found) and own and not INSTALLED.search(str(Path(path).resolve()))


def file_here(path: str) -> Path:
    """Where the file at this path is on this machine: at a node of a cluster, it may be a copy that was sent there."""
    folder = os.environ.get(SHIPPED)
    copy = shipped_at(path, Path(folder)) if folder else None
    return copy if copy is not None and copy.is_file() else Path(path).resolve()


def shipped_at(path: str, folder: Path) -> Path:
    """The place of a copy in a folder: files that were beside each other stay so."""
    file = Path(path).resolve()
    return folder / f"{zlib.crc32(str(file.parent).encode()):x}" / file.name


class EndOfDefinitions(BaseException):
    """Raised by rookery's verbs while rookery imports a script: what follows is its work. Not an Exception, so that the
    script does not catch it."""


def end_import(verb: str) -> None:
    """Called by verbs such as `rookery.train`. A script without a main guard is imported for a class in it, and must
    not train again: everything that its run needed was defined above that call."""
    if _being_imported:
        _ended_by[_being_imported[-1]] = verb
        raise EndOfDefinitions


@exclusive  # else a second thread would find a module that is half imported
def load_file(path: str, key: str = "world") -> ModuleType:
    """Import a Python file by path, once per process, if the user allows it; its folder becomes importable, as when it
    is run. `key` is what names the file. A script is imported up to its first call of a verb, see `end_import`."""
    file, name = file_here(path), module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    demand("code", path, key)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or _belongs_to_python(file):
        raise WorldError(
            f"{path}: is not imported: it should be a Python file of your own, with a name that ends in .py"
        )
    module = importlib.util.module_from_spec(spec)
    if str(file.parent) not in sys.path and not INSTALLED.search(str(file)):  # whose neighbours hide other modules
        sys.path.insert(0, str(file.parent))
    sys.modules[name] = module
    try:
        with _importing(file):
            spec.loader.exec_module(module)
    except EndOfDefinitions:
        pass
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importing(file: Path) -> Iterator[None]:
    """A script sees its own name as its only argument: those of this process are not meant for it."""
    arguments, sys.argv = sys.argv, [str(file)]
    _being_imported.append(file)
    try:
        yield
    finally:
        _being_imported.pop()
        sys.argv = arguments


def _belongs_to_python(file: Path) -> bool:
    """Whether a file belongs to Python itself, which has no envs, but functions that do anything."""
    path = str(file)
    return not INSTALLED.search(path) and (path.startswith(STDLIB) or bool(LIBRARY.search(path)))
