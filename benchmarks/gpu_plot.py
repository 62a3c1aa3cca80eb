"""The drawing of steps/s against envs: `python benchmarks/gpu_plot.py CURVE.json docs/gpu.png [NOTE]`

CURVE.json is what `benchmarks/gpu_ppo.py --curve` or `benchmarks/gpu.py` has written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rookery.monitor.plots import INK, figure_class, save_figure, style_frame, with_prefixes

COLOURS = {"rookery": "#1b6ca8", "PureJaxRL": "#d1603d"}


def draw(curve: dict[str, list[tuple[int, float]]], file: Path, note: str = "") -> None:
    """Steps/s of each side over the number of envs, on logarithmic axes."""
    from matplotlib.ticker import NullLocator

    figure = figure_class()(figsize=(7.5, 4.2), layout="constrained", facecolor="white")
    axes = figure.add_subplot(1, 1, 1)
    for name, points in curve.items():
        if points:
            axes.plot(
                *zip(*points, strict=True), color=COLOURS[name], marker="o", markersize=4, linewidth=1.8, label=name
            )
    envs = [n for n, _ in curve["rookery"]]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(envs, [f"{n:,}" for n in envs])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(with_prefixes())
    axes.set_xlabel("envs", color=INK, fontsize=10)
    axes.set_title(
        f"PPO on CartPole, whole training loop, steps per second{note and '; ' + note}",
        loc="left", fontsize=10.5, color=INK,
    )  # fmt: skip
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    style_frame(axes)
    save_figure(figure, file, dpi=110)


def main() -> int:
    """Draw the file that is named."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    found = json.loads(Path(sys.argv[1]).read_text())
    draw(found.get("curve", found), Path(sys.argv[2]), " ".join(sys.argv[3:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
