"""Checks the built site: `python tests/docs/check_site.py site`. Prints each dead link, each page without its Markdown,
and each thing that a reader without a network would not get, and fails if there is one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class SitePage(HTMLParser):
    """The ids of a page, what it links to, and what a browser loads for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, bool]] = []  # and whether it is loaded with the page
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append((value, (tag, name) in LOADED))


def problems(site: Path) -> Iterator[str]:
    """Each problem of the site in a line."""
    pages = {path: SitePage(path) for path in sorted(site.rglob("*.html"))}
    yield from markdown_problems(site, pages)
    for path, page in pages.items():
        for link, loaded in page.links:
            if why := problem(site, pages, path, link, loaded):
                yield f"{path.relative_to(site)}: {link}: {why}"


def markdown_problems(site: Path, pages: Iterable[Path]) -> Iterator[str]:
    """Each page is there as Markdown too, and `llms.txt` lists it, unless it is the copy of a file."""
    listed = set(re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text()))
    for path in pages:
        name = str(path.relative_to(site).with_suffix(".md"))
        if name != "404.md" and not (site / name).is_file():
            yield f"{name}: there is no such file beside the page"
        if name != "404.md" and not name.startswith("files/") and name not in listed:
            yield f"{name}: llms.txt does not list it"
    yield from (f"llms.txt: {name}: leads nowhere" for name in listed if not (site / name).is_file())


def problem(site: Path, pages: dict[Path, SitePage], path: Path, link: str, loaded: bool) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "is loaded from the network" if loaded and parts.scheme != "data" else None
    file, anchor = urldefrag(unquote(link))
    target = ((site if file.startswith("/") else path.parent) / file.lstrip("/")).resolve() if file else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return "leads nowhere"
    # An id that starts with two underscores is one of the theme's switches.
    if anchor and not anchor.startswith("__") and target in pages and anchor not in pages[target].ids:
        return "there is no such heading"
    return None


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    found = list(problems(site))
    print(*found, sep="\n", end="\n" if found else "")
    count = len(list(site.rglob("*.html")))
    print(f"{count} pages, {len(found)} dead links or things from the network")
    return 1 if found or count < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
