"""MuJoCo's shared library: found where the package `mujoco` has it, and checked before its functions are called.

Compiled code calls a few of its exported functions with addresses of models and data. The objects themselves are made
and freed by MuJoCo's Python bindings, which also say where each array is: nothing here depends on the layout of a C
struct, apart from the counts of warnings, which are checked too. `without_log` alone knows one more struct.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rookery.errors import MissingExtra, WorldError
from rookery.once import once

MAJOR_VERSION = "4"
POINTER, INT = ctypes.c_void_p, ctypes.c_int
SIGNATURES = {
    "mj_step": (POINTER, POINTER),
    "mj_forward": (POINTER, POINTER),
    "mj_resetData": (POINTER, POINTER),
    "mj_rnePostConstraint": (POINTER, POINTER),
    "mj_getState": (POINTER, POINTER, POINTER, INT),
    "mj_setState": (POINTER, POINTER, POINTER, INT),
    "_mjPRIVATE_setTlsLogHandler": (POINTER,),
}
TRIAL_MODEL = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 0.1"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>"""


class Library(NamedTuple):
    """The package `mujoco`, the path of its library, and the C functions that worlds call, by name."""

    package: Any
    path: str
    functions: dict[str, Any]


def load_package() -> Any:
    """The package `mujoco`."""
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtra(f"this world needs MuJoCo ({error}): pip install 'rookery[mujoco]'") from None
    return mujoco


@once
def load() -> Library:
    """The library, after a trial of its functions; a WorldError if it is not one that rookery knows."""
    package = load_package()
    version = package.__version__
    if version.partition(".")[0] != MAJOR_VERSION:
        raise _refusal(version, f"rookery knows MuJoCo {MAJOR_VERSION} only")
    beside = sorted(Path(package.__file__).parent.glob("*mujoco.*"))
    libraries = [path for path in beside if ".so" in path.suffixes or path.suffix in (".dylib", ".dll")]
    if not libraries:
        raise _refusal(version, "its shared library is not beside its package")
    library = Library(package, str(libraries[-1]), _functions(str(libraries[-1]), version))
    wrong = trial_problem(library)
    if wrong:
        raise _refusal(version, wrong)
    return library


def _functions(path: str, version: str) -> dict[str, Any]:
    library, found = ctypes.CDLL(path), {}
    for name, arguments in SIGNATURES.items():
        if not hasattr(library, name):
            raise _refusal(version, f"it has no function {name}")
        function = getattr(library, name)
        function.argtypes, function.restype = list(arguments), None
        found[name] = function
    return found


class LogConfig(ctypes.Structure):
    """mjLogConfig."""

    _fields_ = [
        ("logto_console", ctypes.c_bool),
        ("logto_file", ctypes.c_bool),
        ("logfile", ctypes.c_char * 1024),
        ("topics", ctypes.c_int),
    ]


@contextmanager
def without_log() -> Iterator[None]:
    """MuJoCo writes no warnings in this block: neither to the terminal nor to MUJOCO_LOG.TXT."""
    library = ctypes.CDLL(load().path)
    library.mju_getLogConfig.restype, library.mju_setLogConfig.restype = LogConfig, None
    library.mju_setLogConfig.argtypes = [LogConfig]
    before = library.mju_getLogConfig()
    library.mju_setLogConfig(LogConfig(False, False, before.logfile, before.topics))
    try:
        yield
    finally:
        library.mju_setLogConfig(before)


def trial_problem(library: Library) -> str:
    """What the library's functions do otherwise than the Python bindings, in words; "" if nothing."""
    package, call = library.package, library.functions
    model = package.MjModel.from_xml_string(TRIAL_MODEL)
    ours, theirs = package.MjData(model), package.MjData(model)
    call["mj_step"](model._address, ours._address)
    package.mj_step(model, theirs)
    kind = package.mjtState.mjSTATE_INTEGRATION
    size = package.mj_stateSize(model, kind)
    mine, other = np.full(size + 1, -7.0), np.zeros(size)
    call["mj_getState"](model._address, ours._address, mine.ctypes.data, int(kind))
    package.mj_getState(model, theirs, other, kind)
    if mine[size] != -7.0 or not np.array_equal(mine[:size], other):
        return "its functions do not what those of its Python bindings do"
    counts = ours.warning.number
    ours.qvel[0] = np.nan
    counts[:] = 1  # with a count above 0, MuJoCo writes no message; this also shows that the array is not a copy
    if not (ours.warning.number == 1).all():
        return "its counts of warnings are laid out in another way"
    call["mj_resetData"](model._address, ours._address)
    return "its counts of warnings are laid out in another way" if counts.any() else ""


def _refusal(version: str, reason: str) -> WorldError:
    return WorldError(f"MuJoCo {version} cannot be called from compiled worlds: {reason}")
