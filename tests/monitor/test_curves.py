"""Curves of runs, over three axes, alone and as a band."""

from __future__ import annotations

import numpy as np
import pytest

from monitor import telling
from rookery.monitor.events import Event
from rookery.monitor.jsonl import JsonLines
from rookery.monitor.plots import CurveGroup, draw_groups
from rookery.monitor.statistics import Curve, band, read_curve


def written(folder, events):
    sink = JsonLines(folder)
    for event in events:
        sink.write(event)
    sink.close()
    return folder / "metrics.jsonl"


def curve(*points):
    x, y = np.array(points, dtype=float).T
    return Curve(x, y)


def test_the_axes_are_steps_seconds_and_episodes(tmp_path):
    """An evaluation does not count episodes: they are those of the progress around it."""
    path = written(tmp_path, [
        telling.start(), telling.progress(100, 1010.0, episodes=10), telling.progress(300, 1030.0, episodes=50),
        telling.evaluation(200, 1020.0, **{"eval/return": 7.0}),
    ])  # fmt: skip
    for axis, x in (("steps", 200), ("time", 30), ("episodes", 30)):
        found = read_curve(path, axis=axis)
        assert (found.x.tolist(), found.y.tolist()) == ([x], [7.0]), axis


def test_the_summary_is_no_further_point(tmp_path):
    path = written(tmp_path, [telling.start(), telling.evaluation(100), telling.end()])
    assert len(read_curve(path).x) == 1
    assert len(read_curve(path, "no/such").x) == 0


def test_a_pause_before_a_resume_takes_no_time(tmp_path):
    """And what came after the checkpoint from which the run was resumed is not part of it."""
    later = Event("start", 100, {**telling.START, "resumed_from": 100}, time=99_000.0)
    path = written(tmp_path, [
        telling.start(), telling.evaluation(100, 1010.0), telling.evaluation(200, 1020.0), later,
        telling.evaluation(200, 99_005.0),
    ])  # fmt: skip
    found = read_curve(path, axis="time")
    assert found.x.tolist() == [10.0, 15.0]


def test_a_band_covers_what_all_curves_cover():
    """At all their points; a curve that ends earlier ends the band."""
    made = band([curve((0, 0), (10, 10), (20, 20)), curve((5, 15), (15, 15)), curve((0, 20), (20, 0))])
    assert made.x.tolist() == [5, 10, 15]
    assert made.mean == pytest.approx([(5 + 15 + 15) / 3, (10 + 15 + 10) / 3, (15 + 15 + 5) / 3])
    assert (made.low <= made.mean).all() and (made.mean <= made.high).all()
    assert len(band([curve((0, 1), (1, 1)), curve((2, 1), (3, 1))]).x) == 0


EMPTY = Curve(np.array([]), np.array([]))
GROUPS = {
    "none": [],
    "no values": [CurveGroup("a", [EMPTY])],
    "a run": [CurveGroup("a", [curve((0, 1), (1, 2))])],
    "a single point of each seed": [CurveGroup("a", [curve((1, 1)), curve((1, 2)), EMPTY])],
    "seeds that share no range": [CurveGroup("a", [curve((0, 1), (1, 2)), curve((2, 1), (3, 2))])],
    "more groups than colours": [
        CurveGroup(f"run {i}" * 20, [curve((0, i), (1, 2 * i))] * (1 + i % 3)) for i in range(23)
    ],
}


@pytest.mark.few(1)
@pytest.mark.parametrize("which", [*list(GROUPS)[:-1], pytest.param(list(GROUPS)[-1], marks=pytest.mark.slow)])
def test_everything_can_be_drawn(which, tmp_path):
    pytest.importorskip("matplotlib")
    out = draw_groups(GROUPS[which], tmp_path / "new" / "out.svg", "eval/return", "time", "a title")
    assert "</svg>" in out.read_text()[-20:]
