"""The site: its navigation has every page, and its page on Python every public name."""

from __future__ import annotations

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


def test_results_are_those_of_the_benchmarks():
    """A figure is written down twice, and is the same."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]* \| [^|]* \| ([^|]*\d[^|]*) \|", PAGES["docs/results.md"], re.MULTILINE)
    measured = re.sub(r"\s+", " ", PAGES["docs/benchmarks.md"])
    assert len(rows) > 20
    assert not [(world, reached) for world, reached in rows if reached not in measured]
