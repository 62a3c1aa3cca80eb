"""What pictures are drawn on and saved with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.errors import MissingExtra
from rookery.files import beside, named


def figure_class() -> Any:
    """A figure of its own, without pyplot's global state; saving picks the right canvas by itself."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a plot needs matplotlib, which is not installed: pip install 'rookery[plot]'") from None
    return Figure


def save_figure(figure: Any, out: Path, dpi: int = 200) -> None:
    """Beside first and then renamed, so that a picture is never half there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as unfinished, named(out):
        figure.savefig(unfinished, dpi=dpi, format=out.suffix[1:])
