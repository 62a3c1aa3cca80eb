"""The modules of the page: what they import is there, all of it is shipped, and none of it turns text into HTML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from rookery.web.page_shell import STATIC

MODULES = sorted((STATIC / "js").rglob("*.js"))
LONGEST_LINE = 120
UNSAFE = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", 'setAttribute("on')
IMPORTS = re.compile(r"""(?:from|import\()\s*["'](\.[^"']+)["']""")


def test_there_are_modules() -> None:
    assert {"main.js", "table.js", "tabs.js", "chart.js"} <= {path.name for path in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_a_module_is_whole_and_safe(path: Path) -> None:
    text = path.read_text()
    assert [name for name in IMPORTS.findall(text) if not (path.parent / name).is_file()] == []
    assert [word for word in UNSAFE if word in text] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_lines_are_not_too_long(path: Path) -> None:
    long = [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > LONGEST_LINE]
    assert long == []


def test_the_page_loads_files_that_are_there() -> None:
    found = re.findall(r'(?:href|src)="/static/([^"]+)"', (STATIC / "index.html").read_text())
    assert len(found) > 4
    assert [name for name in found if not (STATIC / name).is_file()] == []


def test_every_file_of_the_page_is_shipped() -> None:
    root = STATIC.parents[3]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["rookery"]
    shipped = {path for pattern in patterns for path in STATIC.parents[1].glob(pattern)}
    assert [path for path in STATIC.rglob("*") if path.is_file() and path not in shipped] == []
