"""What pictures are drawn on and saved with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rookery.errors import MissingExtra


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
    beside = out.with_name(f".{out.stem}.{os.getpid()}{out.suffix}")
    try:
        figure.savefig(beside, dpi=dpi)
        os.replace(beside, out)
    finally:
        beside.unlink(missing_ok=True)
