"""`benchmarks/scaling_model.py`: what the model says follows from its parts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import scaling_model  # noqa: E402
from scaling_model import REMEDIES, Comparison, Parts, draw, far_away, parts_of, rows, saturation_text  # noqa: E402
from scaling_runs import BUSY, Measured, update_seconds  # noqa: E402

PARTS = Parts(steps=256, collect=0.3, update=0.01, call=0.001, weights=4e4, rollout=1e4, link=1e9)


def test_the_parts_add_up() -> None:
    """A run with one collector has the rate that they were taken from."""
    made = parts_of(800.0, {"time/learner": 0.1}, call=0.001, link=1e9, steps=256, weights=4e4, rollout=1e4)
    assert made.rate(1) == pytest.approx(800.0)
    assert made.update == pytest.approx(0.1 * 256 / 800)


def test_more_collectors_never_slow_it_down_but_it_saturates() -> None:
    """At the steps of a collector over what the learner needs for each."""
    rates = [PARTS.rate(k) for k in (1, 2, 4, 8, 16, 128, 1024)]
    assert rates == sorted(rates) and rates[-1] < PARTS.saturation()
    each = PARTS.update + PARTS.call + (PARTS.weights + PARTS.rollout) / PARTS.link
    assert PARTS.saturation() == pytest.approx(PARTS.steps / each, rel=1e-3)
    assert PARTS.rate(PARTS.half()) < 0.5 * PARTS.half() * PARTS.rate(1) <= PARTS.rate(PARTS.half() - 1) * 1.1


def test_each_remedy_helps() -> None:
    """With 1,024 nodes, each one more than those before it."""
    rates = [replace(far_away(PARTS), **changes).rate(1024) for changes in REMEDIES.values()]
    assert rates == sorted(rates) and rates[-1] > 2 * rates[0]


def test_a_model_that_is_off_is_told() -> None:
    """By more than 15 %."""
    (_, good), (_, bad) = rows(PARTS, 1.0, 2, 1.1 * PARTS.rate(2)), rows(PARTS, 1.0, 4, 2.0 * PARTS.rate(4))
    assert good.passed and not bad.passed


def test_collectors_that_gain_too_little_are_told() -> None:
    """Less than nine tenths of what as many alone would make."""
    (good, _), (bad, _) = rows(PARTS, 100.0, 2, 181.0), rows(PARTS, 100.0, 4, 359.0)
    assert good.passed and not bad.passed


def test_rows_are_there_as_soon_as_they_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """One collector comes first, whatever was requested, and says what the model is made of."""
    asked: list[int] = []

    def measured(load: object, collectors: int, seconds: float, folder: Path) -> Measured:
        asked.append(collectors)
        return Measured(collectors, 1900.0 * collectors, {"time/learner": 0.02, "time/waiting": 0.9})

    monkeypatch.setattr(scaling_model, "measure", measured)
    monkeypatch.setattr(scaling_model, "measure_link", lambda: (0.001, 1e9))
    monkeypatch.setattr(scaling_model, "update_seconds", lambda load, collectors: 0.004)
    found = Comparison(BUSY, [4, 2], 1.0)
    made = found.rows()
    assert next(made).value == pytest.approx(1.0) and asked == [1, 2]
    two, *four = made
    assert float(two.theirs.replace(",", "")) == pytest.approx(
        1024 / (0.98 * BUSY.steps / 1900 + 0.004 + 0.001), rel=0.01
    )
    assert len(four) == 2 and asked == [1, 2, 4]
    assert found.parts.update == pytest.approx(0.02 * BUSY.steps / 1900)


@pytest.mark.slow
def test_an_update_is_timed_without_a_run() -> None:
    """On the cores of so many collectors."""
    assert update_seconds(BUSY, 1, rounds=1) > 0.0


def test_a_run_says_what_became_of_its_time() -> None:
    """In milliseconds of a rollout."""
    text = Measured(2, 2000.0, {"time/learner": 0.1, "cluster/busy": 0.8}).text(500)
    assert text == "2 collectors: 2,000 steps/s; ms of a rollout's 500.0: learner 50.0, busy 400.0"


@pytest.mark.slow
def test_the_table_and_the_picture(tmp_path: Path) -> None:
    """Every remedy has its line; the picture is one."""
    text = saturation_text(PARTS)
    assert all(name in text for name in REMEDIES)
    pytest.importorskip("matplotlib")
    draw(PARTS, {1: 800.0, 2: 1500.0}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
