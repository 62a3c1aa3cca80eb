"""The bar chart of a bench: one bar per contender."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from rookery import printing
from rookery.errors import MissingExtra, OptionError
from rookery.tools.bench import BenchResult
from rookery.tools.bench_contenders import OK

OURS, THEIRS = "#1b6ca8", "#b8bec4"


def check_plot_file(file: str) -> None:
    """Refuse before the measurement a file that could not be written after it."""
    pyplot = _pyplot()
    known = pyplot.figure().canvas.get_supported_filetypes()
    pyplot.close("all")
    kind = Path(file).suffix.lstrip(".").lower()
    if kind not in known:
        raise OptionError(f"plot should name a file ending in one of {', '.join(sorted(known))}, got {file!r}")
    if not Path(file).resolve().parent.is_dir():
        raise OptionError(f"plot: there is no folder {str(Path(file).resolve().parent)!r}")


def draw(result: BenchResult, file: str) -> None:
    """Draw the contenders that were measured, the fastest on top."""
    pyplot = _pyplot()
    contenders = sorted((s for s in result.contenders if s.status == OK), key=lambda s: statistics.median(s.rates))
    rates = [statistics.median(contender.rates) for contender in contenders]
    figure, axes = pyplot.subplots(figsize=(8, 1.1 + 0.42 * len(contenders)), layout="constrained")
    bars = axes.barh(
        [s.name for s in contenders], rates, color=[OURS if s.ours else THEIRS for s in contenders], height=0.7
    )
    labels = [
        printing.rate(rate)
        + ("" if contender is result.base else f"   ({printing.times(1 / result.ratio(contender))})")
        for contender, rate in zip(contenders, rates, strict=True)
    ]
    axes.bar_label(bars, labels, padding=5, fontsize=9)
    _style_axes(axes, max(rates))
    axes.set_title(f"{result.env}, {result.num_envs} envs: steps/s (over {result.base.name})", loc="left", fontsize=11)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _style_axes(axes: Any, longest: float) -> None:
    """Hide the axes: the bars have labels."""
    axes.set_xlim(0, 1.25 * longest)
    axes.xaxis.set_visible(False)
    axes.tick_params(axis="y", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("a plot needs matplotlib, which is not installed: pip install 'rookery[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
