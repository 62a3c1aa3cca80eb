"""For MkDocs: each page as Markdown beside its HTML, and `llms.txt`, the list of them for language models
(https://llmstxt.org)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Writes the page's Markdown. Links between pages work in it, because they name Markdown files."""
    path = Path(config["site_dir"]) / page.file.src_uri
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page.markdown)
    return output


def on_nav(nav: Any, config: Any, **_: Any) -> Any:
    """Remembers the navigation for `on_post_build`, which does not get it."""
    config["extra"]["llms_nav"] = nav
    return nav


def on_post_build(config: Any, **_: Any) -> None:
    """Writes `llms.txt`."""
    sections = [(item.title, [*pages_of(item)]) for item in config["extra"].pop("llms_nav").items]
    listed = {title: [(page.file.src_uri, page.markdown) for page in pages] for title, pages in sections}
    text = llms_text(config["site_name"], config["site_description"], listed)
    (Path(config["site_dir"]) / "llms.txt").write_text(text)


def pages_of(item: Any) -> list[Any]:
    """All pages in a part of the navigation."""
    return [page for child in item.children for page in pages_of(child)] if item.children else [item]


def llms_text(name: str, description: str, sections: dict[str, list[tuple[str, str]]]) -> str:
    """The list: for each section its pages, by file and Markdown.

    >>> print(llms_text("rookery", "Trains agents.", {"Tutorials": [("tour.md", "# A tour\\n\\nCommands. More.")]}))
    # rookery
    <BLANKLINE>
    > Trains agents.
    <BLANKLINE>
    ## Tutorials
    <BLANKLINE>
    - [A tour](tour.md): Commands.
    <BLANKLINE>
    """
    parts = [f"# {name}\n\n> {description}\n"]
    for title, pages in sections.items():
        rows = [f"- [{heading(text)}]({file}): {first_sentence(text)}\n" for file, text in pages]
        parts.append(f"## {title}\n\n{''.join(rows)}")
    return "\n".join(parts)


def heading(markdown: str) -> str:
    return re.search(r"^# (.*)$", markdown, re.MULTILINE)[1]  # type: ignore[index]


def first_sentence(markdown: str) -> str:
    """What a page is for: the first sentence of its first paragraph, without links.

    >>> first_sentence("# Title\\n\\n```sh\\nmake\\n```\\n\\nSee [this](a.md) page. And more.")
    'See this page.'
    """
    blocks = re.sub(r"^```.*?^```$|^---\n.*?^---$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^[#|!<].*$|^\[.*\{.*$", "", blocks, flags=re.MULTILINE).strip()  # the second: buttons
    paragraph = " ".join(re.split(r"\n\s*\n", prose)[0].split())
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    return re.match(r".*?(?:\.(?= [A-Z`])|$)", plain)[0]  # type: ignore[index]
