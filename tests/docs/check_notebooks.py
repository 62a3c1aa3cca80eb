"""Executes the notebooks of docs/notebooks/: `python tests/docs/check_notebooks.py [--write] [NAME ...]`.

Each runs from an empty folder. With `--write` what it printed is stored in it, for the site. One that needs a GPU is
not executed, and what is stored in any of them must not name a place on the machine where it ran.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
IN_ORDER = ("own_env", "kernel_world", "hockey_league", "market", "gpu")  # what one compiles, later ones read from disk
NEEDS_GPU = {"gpu"}
CELL_SECONDS = 600
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLACE = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users|var|opt)/")


def execute(path: Path, write: bool) -> None:
    """Raises what a cell raises."""
    import nbformat  # of the extra `docs`, without which this file is imported too, for its examples
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": folder}}, coalesce_streams=True
        ).execute()
    print(f"{path.name}: {time.monotonic() - began:.0f} s", flush=True)
    if write:
        for cell in notebook.cells:
            cell.metadata = {}
            if cell.cell_type == "code":
                cell.outputs = readable(cell.outputs)
        notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
        nbformat.write(notebook, path)


def readable(outputs: list[Any]) -> list[Any]:
    """Outputs without colours and without the bars of progress, which are on standard error."""
    kept = [output for output in outputs if output.get("name") != "stderr"]
    for output in kept:
        if "text" in output:
            output.text = "\n".join(line.rstrip() for line in COLOUR.sub("", output.text).splitlines()) + "\n"
    return kept


def places(path: Path) -> list[str]:
    """What is stored in a notebook and names a place on a machine."""
    return PLACE.findall(path.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    os.environ["PATH"] = (
        f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for cells that call `rookery`
    )
    os.environ["ROOKERY_STATE"] = tempfile.mkdtemp(prefix="rookery-state-")
    found = sorted(NOTEBOOKS.glob("*.ipynb"), key=lambda path: IN_ORDER.index(path.stem))
    chosen = [path for path in found if not options.names or path.stem in options.names]
    for path in chosen:
        if path.stem not in NEEDS_GPU:
            execute(path, options.write)
    bad = [path.name for path in chosen if places(path)]
    print(f"{len(chosen)} notebooks, {len(bad)} with places of a machine: {', '.join(bad) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
