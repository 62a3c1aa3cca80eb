"""Noticing a busy neighbour."""

from __future__ import annotations

from types import SimpleNamespace

from rookery.engine.machine import FIRST_RETREAT_SECONDS, Contention
from rookery.engine.process import ProcessEngine


def feed(contention, waits, start=0.0):
    """The times at which the verdict changed."""
    return [start + k for k, wait in enumerate(waits) if contention.changed(wait, start + k * 1e-3)]


def test_steady_rounds_are_left_alone():
    """Short, long, slowly changing and now and then delayed rounds are not sign of a neighbour."""
    for waits in ([1e-4] * 500, [5e-3] * 500, [1e-4 * 1.005**k for k in range(800)], ([1e-4] * 9 + [8e-3]) * 50):
        contention = Contention()
        assert feed(contention, waits) == []
        assert not contention.crowded


def test_stolen_time_slices_are_noticed_soon():
    """When every other round is 3 ms longer than usual, the cores are given up within a few dozen rounds."""
    contention = Contention()
    feed(contention, [1e-4] * 100)
    feed(contention, [1e-4, 3e-3] * 30, start=0.1)
    assert contention.crowded


def test_cores_are_tried_again_later_and_ever_later():
    """After a while the cores are taken back; if that was no use, the next retreat is longer."""
    contention, now, spells = Contention(), 0.0, []
    for _ in range(3):
        while not contention.crowded:
            contention.changed(1e-4, now)
            contention.changed(4e-3, now)
            now += 5e-3
        began = now
        while contention.crowded:
            contention.changed(1e-4, now)
            now += 0.01
        spells.append(now - began)
    assert spells[0] >= FIRST_RETREAT_SECONDS
    assert spells[0] < spells[1] < spells[2]


def test_a_caller_that_comes_late_learns_nothing_about_the_cores():
    """Updates that take longer than a step, and then shorter ones, are not sign of a neighbour."""
    engine = SimpleNamespace(_contention=Contention())

    def round_of(away, wait, now):
        return ProcessEngine._is_delayed(engine, now - away - wait, now - wait, now)

    rounds = [(4e-3, 1e-6)] * 300 + [(1e-4, 1e-3)] * 300 + [(0.0, 1.1e-3)] * 300
    assert not any(round_of(*times, now=0.01 * k) for k, times in enumerate(rounds))
    assert any(round_of(0.0, 8e-3, now=10.0 + 0.01 * k) for k in range(100))
