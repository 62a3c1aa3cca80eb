"""For MkDocs: each notebook in docs/notebooks/ as a page, with its code and what it printed, and as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """A page in place of each notebook; the notebook itself stays a file to download."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.append(File.generated(config, page_uri(notebook.src_uri), content=as_page(Path(notebook.abs_src_path))))
        notebook.inclusion = InclusionLevel.INCLUDED
    return files


def page_uri(notebook: str) -> str:
    return notebook.removesuffix(".ipynb") + ".md"


def as_page(path: Path) -> str:
    """The cells one after another."""
    cells = json.loads(path.read_text())["cells"]
    title, *rest = ["\n\n".join(cell_parts(cell)) for cell in cells]
    download = f"[This page as a notebook]({path.name}){{ .md-button download }}"
    return "\n\n".join([title, download, *rest]) + "\n"


def cell_parts(cell: dict[str, Any]) -> list[str]:
    """A cell's text, or its code and outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *(output_part(output) for output in cell["outputs"])]


def output_part(output: dict[str, Any]) -> str:
    """What a cell printed, returned or drew."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="what the code above drew" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f"````{{.text .output}}\n{text.rstrip()}\n````"
