"""Names of rookery in the docs are names that a reader can use."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module

import pytest

import rookery
from docs.pages import PAGES

NAME = r"(?<![\w./-])rookery(?:\.[A-Za-z_]\w*)+"
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


def test_the_agent_without_torch_is_offered() -> None:
    assert callable(rookery.standalone.from_agent)
