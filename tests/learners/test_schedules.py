"""Schedules: names and expressions of progress, and nothing that runs code."""

from __future__ import annotations

import math

import pytest

from rookery.learners.schedules import parse_schedule


@pytest.mark.parametrize(
    ("text", "at", "factor"),
    [
        ("constant", 0.3, 1.0),
        ("linear", 0.75, 0.25),
        ("0.5 * (1 + cos(pi * progress))", 0.5, 0.5),
        ("max(0.1, 1 - 2 * progress)", 0.9, 0.1),
        ("1 if progress < 0.5 else 0.1", 0.6, 0.1),
        ("exp(-3 * progress)", 1.0, math.exp(-3)),
        ("0.9 ** floor(progress * 10)", 0.35, 0.9**3),
        ("linear", 1.5, 0.0),  # beyond the end it stays as it ended
    ],
)
def test_what_a_schedule_gives(text: str, at: float, factor: float) -> None:
    assert parse_schedule(text)(at) == pytest.approx(factor)


@pytest.mark.parametrize(
    "text",
    [
        "", "cosine", "lambda progress: 1", "__import__('os').system('true')", "progress.real", "[1, 2]", "'a'", "1j",
        "open('x')", "progress if", "exp(progress * 10000)", "-progress", "1 / progress", "True", "9 ** 9 ** 9 ** 9",
        "(" * 90 + "1" + ")" * 90 + "+" * 20, "progress " + "+ 1 " * 100, "min()", "x := 1", "print(progress)",
    ],
)  # fmt: skip
def test_what_is_refused(text: str) -> None:
    """Names that are not there, code, and factors that are negative or not finite somewhere in a run."""
    with pytest.raises(ValueError):
        parse_schedule(text)
