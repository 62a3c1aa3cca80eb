"""For MkDocs: the README as the first page, and a page for each file of the repository to which a page links.

On the pages of a repository, `[ppo.py](../src/rookery/learners/algorithms/ppo.py)` opens the file. The site has a copy
of it, so that the same link works there, without a network.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yaml": "yaml"}


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Adds the first page, and copies of files."""
    pages = [(file.src_uri, Path(file.abs_src_path).read_text()) for file in files if file.src_uri.endswith(".md")]
    readme = (ROOT / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=moved_links(readme, "", "index.md")))
    for name in sorted({*linked(readme, ""), *(name for uri, text in pages for name in linked(text, f"docs/{uri}"))}):
        files.append(File.generated(config, copy_of(name), content=file_page(name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files of the repository lead to their copies."""
    if page.file.src_uri == "index.md" or page.file.src_uri.startswith("files/"):
        return markdown
    return moved_links(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def moved_links(text: str, home: str, page: str) -> str:
    """The text of the file `home` of the repository as the page `page` of the site."""

    def moved(link: re.Match[str]) -> str:
        name = resolved(link[1], home)
        if name.startswith("docs/"):
            target = name.removeprefix("docs/")
        elif (ROOT / name).is_file():
            target = copy_of(name)
        else:
            return link[0]
        return posixpath.relpath(target, posixpath.dirname(page) or ".") + (link[2] or "")

    return LINK.sub(moved, text)


def linked(text: str, home: str) -> set[str]:
    """The files outside of docs/ to which a page links."""
    names = {resolved(path, home) for path, _ in LINK.findall(text)}
    return {name for name in names if not name.startswith(("docs/", "..")) and (ROOT / name).is_file()}


def resolved(path: str, home: str) -> str:
    """A link's target, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), path))


def copy_of(name: str) -> str:
    return "index.md" if name == "README.md" else f"files/{name}.md"


def file_page(name: str) -> str:
    """A file as a page."""
    text, kind = (ROOT / name).read_text(), Path(name).suffix
    if kind == ".md":
        return moved_links(text, name, copy_of(name))
    return f"---\nsearch: {{exclude: true}}\n---\n# {name}\n\n````{LANGUAGES.get(kind, 'text')}\n{text}\n````\n"
