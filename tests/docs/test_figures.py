"""A measured figure is stated on one page, with the command that measures it. Other pages link to it."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from docs.pages import PAGES

NUMBER = re.compile(r"(?<![\w.,/=+-])-?(\d[\d,]*(?:\.\d+)?)( ?(?:[MGk]|%|x|s|ms|us|ns|[kMG]B)(?![\w/]))?(?![\w]|\.\d)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
DATE = re.compile(r"\b20\d\d(-\d\d-\d\d)?\b")
# The README quotes four rows of the benchmarks, and a test compares them.
QUOTING = {"README.md", "CHANGELOG.md", "docs/configuration.md"}
# Two measurements with one result, and the steps of two tables.
TWICE = {"12.2x", "20,054,016"}
COMMAND = re.compile(r"\bmake [a-z]|python benchmarks/|benchmarks/\w+\.py|rookery [a-z]|^```python", re.MULTILINE)


def figures(text: str) -> set[str]:
    """The numbers of a text that look measured: of four digits, or of three with a unit.

    >>> sorted(figures("91,600 steps, 12.4 M, 69.5x, 2,048 envs, 100 k, 2026-11-17"))
    ['12.4M', '69.5x']
    """
    found = set()
    for number, unit in NUMBER.findall(DATE.sub("", CODE.sub(" ", text))):
        digits = number.replace(",", "").replace(".", "").lstrip("0")
        digits = digits if "." in number else digits.rstrip("0")
        chosen = (
            int(float(number.replace(",", ""))).bit_count() == 1 or len(digits) < 3
        )  # a power of two, a round number
        if not chosen and (len(digits) > 3 or unit):
            found.add(number.rstrip(",") + unit.strip())
    return found


def test_each_figure_is_on_one_page():
    pages = defaultdict(list)
    for name, text in PAGES.items():
        for figure in figures(text) - TWICE if name not in QUOTING else ():
            pages[figure].append(name)
    assert not {figure: names for figure, names in pages.items() if len(names) > 1}


@pytest.mark.parametrize("page", [name for name in PAGES if name not in QUOTING])
def test_figures_come_with_their_command(page):
    """In the same section, or at the top of the page."""
    top, *sections = re.split(r"^## ", PAGES[page], flags=re.MULTILINE)
    without = [
        text.splitlines()[0]
        for text in sections
        if figures(text) and not COMMAND.search(text) and not COMMAND.search(top)
    ]
    assert not without
