"""Curves, areas and bands as they are drawn: the pixels of a chart."""

from __future__ import annotations

from typing import Any

import pytest

from rookery.web.dashboard_server import DashboardServer

CHART = """async ({series, data}) => {
  const { chart } = await import("/static/js/chart.js");
  const place = document.createElement("div");
  place.style.width = "600px";
  document.getElementById("view").replaceChildren(place);
  const drawn = chart(place, { label: "test", series, scales: { y: { range: [0, 100] } } });
  drawn.set(data);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const { left, top, width, height } = drawn.plot.bbox, canvas = drawn.plot.ctx;
  const column = (share) => [...canvas.getImageData(Math.round(left + share * width), top, 1, height).data];
  return [0.25, 0.5, 0.75].map((share) => {
    const pixels = column(share), rows = [];
    for (let y = 0; y < height; y++) if (pixels[4 * y] > 200 && pixels[4 * y + 2] < 120) rows.push(1 - y / height);
    return rows.length ? [100 * Math.min(...rows), 100 * Math.max(...rows)] : null;
  });
}"""
RED = "#ff0000"


def drawn(page: Any, dashboard: DashboardServer, series: list[dict[str, Any]], data: list[list[Any]]) -> Any:
    """The lowest and the highest red value at a quarter, a half and three quarters of the width."""
    page.goto(dashboard.url)
    page.wait_for_selector("#view h1")
    return page.evaluate(CHART, {"series": series, "data": data})


@pytest.mark.slow
def test_every_extreme_of_many_points_is_drawn(page: Any, dashboard: DashboardServer) -> None:
    """More points than pixels: one that is higher than all others is seen."""
    y = [20.0 + at % 2 for at in range(20_001)]
    y[10_000] = 90.0
    left, middle, right = drawn(page, dashboard, [{"label": "a", "colour": RED}], [list(range(len(y))), y])
    assert middle[1] > 88
    assert all(15 < low < high < 26 for low, high in (left, right))


def test_a_line_goes_over_gaps(page: Any, dashboard: DashboardServer) -> None:
    found = drawn(page, dashboard, [{"label": "a", "colour": RED}], [[0, 1, 2, 3, 4], [50, None, None, None, 50]])
    assert all(48 < low <= high < 52 for low, high in found)


def test_areas_and_bands_are_whole(page: Any, dashboard: DashboardServer) -> None:
    """An area reaches from its curve to 0, a band from its upper edge to its lower one, without a hole in between."""
    x = list(range(2001))
    area = {"label": "a", "colour": RED, "fill": RED}
    for low, high in drawn(page, dashboard, [area], [x, [40] * len(x)]):
        assert low < 2
        assert 38 < high < 42
    edge = {"label": "low", "colour": "transparent", "width": 0}
    for low, high in drawn(page, dashboard, [edge, {**area, "down": 1}], [x, [30] * len(x), [60] * len(x)]):
        assert 28 < low < 32
        assert 58 < high < 62
