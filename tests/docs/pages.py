"""The documentation's pages, and what is in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "rookery"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))
}


def blocks(page: str, *languages: str) -> list[str]:
    """The code blocks of a page in these languages."""
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)


def section(page: str, heading: str) -> str:
    """The text below a heading of a page, up to the next one of the same level."""
    level = heading.split()[0]
    return PAGES[page].split(f"\n{heading}\n", 1)[1].split(f"\n{level} ", 1)[0]


def anchors(text: str) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
