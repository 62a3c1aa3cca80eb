"""Names of rookery in the docs are names that a reader can use."""

from __future__ import annotations

import ast
import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import rookery
from docs.pages import PAGES, ROOT, section

NAME = r"(?<![\w./-])rookery(?:\.[A-Za-z_]\w*)+"
FACES = re.findall(r"`(rookery[\w.]*)`(?=[^|]*\|[^|]+\|$)", section("docs/api.md", "## What is stable"), re.MULTILINE)
SCRIPTS = [
    str(path.relative_to(ROOT)) for folder in ("examples", "docs/notebooks") for path in (ROOT / folder).glob("*.*")
]
CALLED = re.compile(rf"({NAME})\(")


def code_in(text: str) -> list[str]:
    """The blocks of Python of a page, and what its prose has between backticks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [*re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE), *re.findall(r"`([^`\n]+)`", prose)]


def resolves(name: str) -> bool:
    """Whether it is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:count]))
        except ImportError:
            continue
        try:
            reduce(getattr, parts[count:], module)
        except AttributeError:
            continue
        return True
    return False


@pytest.mark.parametrize("page", PAGES)
def test_names_exist(page: str) -> None:
    names = {name for code in code_in(PAGES[page]) for name in re.findall(NAME, code)}
    assert sorted(name for name in names if not resolves(name)) == []


@pytest.mark.parametrize("page", PAGES)
def test_what_is_called_needs_only_import_rookery(page: str) -> None:
    """`rookery.some_module.function()` fails unless `rookery` offers that module, or the code imports it. Longer names
    are read as the place to import from."""
    for code in code_in(PAGES[page]):
        for name in CALLED.findall(code):
            first, *more = name.split(".")[1:]
            imported = re.search(rf"import rookery\.{first}\b", code)
            assert first in rookery.__all__ or imported or len(more) > 1, f"{page}: {name}"


def offered(module: ModuleType) -> set[str]:
    """Of `rookery.errors`, all exceptions."""
    return set(getattr(module, "__all__", ())) or {name for name in dir(module) if name[0].isupper()}


@pytest.mark.parametrize("page", [*PAGES, *SCRIPTS])
def test_only_stable_names_are_imported(page: str) -> None:
    """From the modules that the page on Python lists, and only what is in their `__all__`."""
    text = PAGES.get(page) or (ROOT / page).read_text()
    for module, names in re.findall(r"from (rookery[\w.]*) import (\w+(?:, \w+)*)", text):
        assert module in FACES, f"{page}: {module}"
        assert set(names.split(", ")) <= offered(import_module(module)), f"{page}: {module}"
    assert set(re.findall(r"^ *import (rookery[\w.]*)", text, re.MULTILINE)) <= set(FACES), page


@pytest.mark.parametrize("face", FACES)
def test_a_face_offers_what_it_lists(face: str) -> None:
    """To the program when it runs and to type checkers, and to `dir()`."""
    module = import_module(face)
    for name in offered(module):
        found = getattr(module, name)
        assert found is not None and name in dir(module), name
        assert not isinstance(found, ModuleType) or f"{face}.{name}" in FACES, f"{name} is hidden by a module"
    tree = ast.parse(Path(str(module.__file__)).read_text())
    hidden = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    lazy = any("lazy_names" in ast.unparse(node) for node in tree.body)
    shown = {part.name for node in hidden for part in ast.walk(node) if isinstance(part, ast.alias)}
    assert not lazy or shown == offered(module)


def test_a_face_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match=r"rookery\.kernel has no 'nothing'"):
        _ = rookery.kernel.nothing


def test_deploy_is_a_function_and_a_place() -> None:
    assert callable(rookery.deploy) and rookery.deploy.Registry.__name__ == "Registry"


def test_the_agent_without_torch_is_offered() -> None:
    assert callable(rookery.standalone.from_agent)
