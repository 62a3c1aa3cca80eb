"""Curves, bars and figures at their edges."""

from __future__ import annotations

from rookery.monitor.events import DownsampledCurve
from rookery.monitor.formatting import chart, divide_cells, duration, number, resampled


def test_a_chart_has_the_size_it_was_asked_for() -> None:
    """Any number of values, any width."""
    for n in (0, 1, 2, 7, 50, 500):
        for width in (1, 2, 10, 77):
            rows = chart([float(i % 5) for i in range(n)], width, 3)
            assert [len(row) for row in rows] == [width] * 3


def test_a_flat_curve_is_drawn_half_way_up() -> None:
    assert chart([3.0, 3.0, 3.0], 3, 2) == ["   ", "███"]


def test_resampling_keeps_the_ends_of_a_short_curve() -> None:
    assert resampled([1.0, 5.0], 5) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert resampled([4.0], 3) == [4.0, 4.0, 4.0]


def test_cells_are_shared_out_to_the_last() -> None:
    for shares in ([0.7, 0.1, 0.15, 0.0, 0.05], [1.0], [1e-9, 1.0], [0.2] * 5):
        assert sum(divide_cells(shares, 66)) == 66
    assert divide_cells([0.0, 0.0], 10) == [0, 0]


def test_a_trace_keeps_the_shape_of_a_long_run_in_little_room() -> None:
    trace = DownsampledCurve(capacity=64)
    for i in range(100_000):
        trace.add(float(i))
    points = trace.points
    assert len(points) <= 65 and points == sorted(points)
    assert points[0] < 5_000 and points[-1] > 95_000


def test_figures_stay_short() -> None:
    assert all(len(number(sign * 1.23456789 * 10**e)) <= 10 for e in range(-12, 13) for sign in (1, -1))
    assert duration(59.9) == "1 min 0 s"
