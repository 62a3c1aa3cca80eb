"""The dashboard's page with all its files inside.

Modules become `data:` addresses, which an import map gives names to. Nothing else is allowed to load.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from rookery.files import replace_file
from rookery.web.page_shell import STATIC
from rookery.web.recorded_answers import record_answers

MODULE_NAME = re.compile(r'"(\.{1,2}/[\w./-]+\.js)"')
LINKED = re.compile(r'<link rel="(?:stylesheet|icon)"[^>]*href="/static/([^"]+)"[^>]*>\n?')
PICTURE = re.compile(r'url\("/static/([^"]+\.svg)"\)')
SCRIPT = re.compile(r'<script[^>]*src="/static/([^"]+)"[^>]*></script>\n?')
# The one page with inline scripts: it comes from a file, and holds everything that it may load.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
PARTS = ("bands", "markets")  # of what is recorded that not every report has
FIRST = ("js/report/recorded.js", "vendor/uPlot.iife.min.js")  # no modules


def inlined_page(recorded: dict[str, Any], title: str) -> str:
    """The page as one HTML text."""
    page = (STATIC / "index.html").read_text()
    styles = [name for name in LINKED.findall(page) if name.endswith(".css")]
    scripts = [name for name in SCRIPT.findall(page) if not _is_module(name)]
    page = SCRIPT.sub("", LINKED.sub("", page))
    head = "\n".join(
        [
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">',
            *(f"<style>{_style(name)}</style>" for name in styles),
            f'<script type="application/json" id="recorded">{_json(recorded)}</script>',
            *(f"<script>{_text(name)}</script>" for name in (*FIRST, *scripts)),
            f'<script type="importmap">{_json({"imports": _modules()})}</script>',
            '<script type="module">import "rookery/main.js";</script>',
        ]
    )
    page = page.replace("<title>rookery</title>", f"<title>{html.escape(title)}</title>")
    shown = " ".join(part for part in PARTS if recorded.get(part))
    return page.replace("<html ", f'<html data-report="{shown}" ').replace("</head>", f"{head}\n</head>")


def _modules() -> dict[str, str]:
    """Every module by a name of its own, as an address that holds it."""
    folder = STATIC / "js"
    modules = [path for path in sorted(folder.rglob("*.js")) if _is_module(f"js/{path.relative_to(folder)}")]
    return {_name(path): _address(_code(path)) for path in modules}


def _code(module: Path) -> str:
    """A module whose imports have those names."""

    def renamed(found: re.Match[str]) -> str:
        return f'"{_name((module.parent / found[1]).resolve())}"'

    return MODULE_NAME.sub(renamed, module.read_text())


def _name(module: Path) -> str:
    return f"rookery/{module.relative_to(STATIC / 'js').as_posix()}"


def _address(code: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(code.encode()).decode()}"


def _is_module(name: str) -> bool:
    return name.startswith("js/") and name not in (*FIRST, "js/theme.js")


def _style(name: str) -> str:
    """A style sheet with its pictures."""
    return PICTURE.sub(lambda found: f'url("{_picture(found[1])}")', _text(name))


def _picture(name: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode((STATIC / name).read_bytes()).decode()}"


def _text(name: str) -> str:
    """A file that goes into a <script> or <style>, which `</` would end."""
    return (STATIC / name).read_text().replace("</script", "<\\/script")


def _json(value: Any) -> str:
    """JSON that no text in it can leave."""
    return orjson.dumps(value).decode().replace("<", "\\u003c")


def write_report(runs: Sequence[Path], file: Path) -> int:
    """Write the views of these runs to one file, which needs nothing else. Returns its size in bytes."""
    names = ", ".join(run.name for run in runs[:3]) + (", …" if len(runs) > 3 else "")
    page = inlined_page(record_answers(runs), f"rookery: {names}").encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, [page])
    return len(page)
