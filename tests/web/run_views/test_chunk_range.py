"""A zoom from a part of the columns is the same as one from all of them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from rookery.monitor.metric_chunk import chunk_of
from rookery.web.run_views.metric_curves import ChunkCurves, between, ends_of
from rookery.web.run_views.metric_reader import FoundCurves
from rookery.web.run_views.run_routes import data_answer
from web.run_views.recorded import evaluation, progress, start

NAMES = ("episode/return", "eval/return", "no such metric")
MIDDLE = (evaluation(step, step, False) if step % 70 == 0 else progress(step) for step in range(10, 3000, 10))
CHUNK = chunk_of("\n".join(map(json.dumps, [start(), *MIDDLE])).encode())
RANGES = [(500, 800), (705, 715), (None, 40), (2950, None), (-10, 1), (9000, 9999), (20, 10)]


@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("points", [10, 5000])
def test_a_part_answers_as_the_whole(low: float | None, high: float | None, points: int) -> None:
    asked = replace(CHUNK, metrics={name: CHUNK.metrics[name] for name in NAMES if name in CHUNK.metrics})
    whole = data_answer(FoundCurves(ChunkCurves(CHUNK), True), NAMES, low, high, points)
    part = FoundCurves(ChunkCurves(between(asked, low, high)), True, ends_of(asked))
    found = data_answer(part, NAMES, low, high, points)
    assert found["range"] == whole["range"]
    assert found["exact"] == whole["exact"]
    np.testing.assert_array_equal(found["x"], whole["x"])
    for name in NAMES:
        np.testing.assert_array_equal(found["series"][name], whole["series"][name])
