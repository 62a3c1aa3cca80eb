"""The site: its navigation has every page, and its page on Python every public name."""

from __future__ import annotations

import doctest
import importlib.util
import re

import rookery
from docs.pages import PAGES, ROOT

NAVIGATION = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]


def test_every_page_is_in_the_navigation():
    """And nothing else: notebooks are pages too."""
    listed = re.findall(r"([\w/-]+)\.md$", NAVIGATION, re.MULTILINE)
    notebooks = {f"notebooks/{path.stem}" for path in ROOT.glob("docs/notebooks/*.ipynb")}
    pages = {name.removeprefix("docs/").removesuffix(".md") for name in PAGES if name.startswith("docs/")}
    assert len(listed) == len(set(listed)) and set(listed) == pages | notebooks | {"index"}


def test_every_public_name_is_on_the_page_on_python():
    """Modules by their headings, names by what mkdocstrings reads, or in a sentence."""
    page = PAGES["docs/api.md"]
    for name in rookery.__all__:
        described = re.search(
            rf"^::: rookery\.[\w.]*\b{name}$|^## rookery\.{name}$|`rookery\.{name}`", page, re.MULTILINE
        )
        assert described or re.search(rf"^::: rookery\.(\w+\.)*{name}\.{name}$", page, re.MULTILINE), name


def test_the_list_for_language_models():
    """`make test-docs` checks the file that is built; here is how its lines are made."""
    spec = importlib.util.spec_from_file_location("markdown_pages", ROOT / "docs/_site/markdown_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert doctest.testmod(module).attempted == 2 and not doctest.testmod(module).failed
    for name, text in PAGES.items():
        if name.startswith("docs/"):
            assert module.first_sentence(text)[-1] in ".:", name
