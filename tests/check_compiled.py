"""Checks of what is in C by its compiler, for the Makefile: `python tests/check_compiled.py warnings|sanitizers`.

- warnings: it compiles without a warning.
- sanitizers: its tests run on a build with the address and undefined-behaviour sanitizers, in a copy of the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy

ROOT = Path(__file__).parents[1]
SOURCES = ("rookery/engine/_loops.c", "rookery/worlds/atari/_screen.c")
TESTS = ("tests/engine/test_loops.py", "tests/worlds/atari/test_screen.py")
COMPILER = os.environ.get("CC", "cc")
STRICT = ["-O3", "-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def compiles(flags: list[str], folder: Path, ending: str) -> bool:
    """Whether all of them compile, into the same folders below `folder`."""
    headers = ["-I", sysconfig.get_paths()["include"], "-isystem", numpy.get_include()]
    good = True
    for source in SOURCES:
        output = (folder / source).with_suffix(ending)
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [COMPILER, *flags, "-fPIC", *headers, str(ROOT / "src" / source), "-o", str(output)]
        good &= subprocess.run(command, check=False).returncode == 0
    return good


def warnings(folder: Path) -> bool:
    return compiles([*STRICT, "-c"], folder, ".o")


def sanitizers(folder: Path) -> bool:
    """Runs the tests in a copy, so that an installed build is neither used nor replaced."""
    shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    if not compiles([*SANITIZE, "-shared"], folder, sysconfig.get_config_var("EXT_SUFFIX")):
        return False
    runtime = subprocess.run(
        [COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout
    settings = {
        "PYTHONPATH": str(folder),
        "LD_PRELOAD": runtime.strip(),  # Python itself was built without it
        "PYTHONMALLOC": "malloc",  # else most objects are parts of larger blocks, whose bounds are not checked
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter does not free everything at its end
    }
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(tests, cwd=ROOT, env={**os.environ, **settings}, check=False).returncode == 0


def main() -> int:
    if shutil.which(COMPILER) is None:
        print(f"what is in C is not checked: there is no C compiler {COMPILER!r}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        check = {"warnings": warnings, "sanitizers": sanitizers}[sys.argv[1]]
        return 0 if check(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
