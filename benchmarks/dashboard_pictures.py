"""Pictures of the dashboard's pages for the README and the documentation: `python benchmarks/dashboard_pictures.py`.

It shows what the tests have recorded (real, short runs, a league and a market), a study of made-up trials, and the
agent that comes with rookery, and writes docs/dashboard-*.png. It needs Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from PIL import Image

from dashboard_browser import chromium
from dashboard_page_checks import copy_recorded
from dashboard_servers import dashboard
from large_study import write_study

DOCS = Path(__file__).parent.parent / "docs"
WIDTH, HEIGHT = 1200, 720
MOST_BYTES = 150_000
COLOURS = 128  # of a picture: charts have few
COMPARED = "&".join(f"run=runs/cartpole_seed{seed}" for seed in (1, 2, 3))
# name: the address, what must be there, and seconds until it has settled
PAGES = {
    "runs": ("/", "table tbody tr a[href]", 2.0),
    "run": ("/runs/runs/cartpole_seed1", ".chart-place[data-points]", 2.0),
    "compare": (f"/compare?{COMPARED}", ".chart canvas", 2.0),
    "study": ("/studies/runs/cartpole", "main[data-complete]", 1.0),
    "league": ("/leagues/runs/icehouse", "main table tbody tr", 2.0),
    "market": ("/markets/backtest/runs/coins-walk-forward", "main[data-complete]", 2.0),
    "hockey": ("/play?agent=hockey&opponent=strong", "canvas", 6.0),
}


def pictures(folder: Path, trials: int) -> Iterator[tuple[str, bytes]]:
    """Each page as a PNG."""
    copy_recorded(folder / "runs")
    write_study(folder / "runs" / "cartpole", trials)
    with chromium() as browser, dashboard(folder / "runs", folder / "cache") as served:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for name, (path, there, seconds) in PAGES.items():
            yield name, _picture(page, served.url + path, there, seconds)


def _picture(page: Any, url: str, there: str, seconds: float) -> bytes:
    page.goto(url)
    page.wait_for_selector(there, timeout=180_000, state="attached")
    page.wait_for_timeout(1000 * seconds)
    with Image.open(io.BytesIO(page.screenshot())) as image:
        small = io.BytesIO()
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> int:
    """Write the pictures; returns 1 if one of them is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder to write to (default: docs)")
    parser.add_argument("--trials", type=int, default=400, help="of the study (default: %(default)s)")
    options = parser.parse_args()
    largest = 0
    with tempfile.TemporaryDirectory(prefix="dashboard-pictures-") as name:
        for page, picture in pictures(Path(name), options.trials):
            (options.out / f"dashboard-{page}.png").write_bytes(picture)
            print(f"dashboard-{page}.png: {len(picture) / 1000:.0f} kB")
            largest = max(largest, len(picture))
    return 1 if largest > MOST_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
