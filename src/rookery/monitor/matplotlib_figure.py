"""Matplotlib figures for plots, and how they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.errors import MissingExtra
from rookery.files import beside, named


def figure_class() -> Any:
    """The Figure class, which avoids the global state of pyplot; saving chooses the canvas."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a plot needs matplotlib, which is not installed: pip install 'rookery[plot]'") from None
    return Figure


def save_figure(figure: Any, out: Path, dpi: int = 200) -> None:
    """Write to a temporary file and rename it, so that an incomplete file is never seen."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as unfinished, named(out):
        figure.savefig(unfinished, dpi=dpi, format=out.suffix[1:])
