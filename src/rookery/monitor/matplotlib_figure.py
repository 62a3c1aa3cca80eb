"""Matplotlib figures for plots, and how they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.errors import MissingExtra
from rookery.files import beside, named

INK, PALE = "#30363d", "#8b949e"


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


def style_frame(axes: Any) -> None:
    """A frame that does not draw attention from the curves."""
    axes.grid(True, axis="y", color="#e6e8eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=PALE, labelsize=8.5, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color("#c9ced4")


def with_prefixes() -> Any:
    """Numbers as 10 k and 2 M."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep=" ")
