"""`/api/sparks` and `/api/compare`: several runs at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.monitor.statistics import Curve, band
from rookery.web.run_views import compared_curves
from web.run_views.recorded import append, client_of, evaluation, progress, start, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three seeds of one experiment, and another run."""
    for seed in range(3):
        events = [progress(step, **{"episode/return": float(seed + step)}) for step in range(0, 100, 10)]
        write_run(tmp_path / "runs" / f"a-s{seed}", [start(), *events], seed=seed)
    write_run(tmp_path / "runs" / "b", [start(), progress(5), progress(15)], ppo={"gamma": 0.5})
    return tmp_path / "runs"


def test_sparks(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of short and long files, of runs with evaluations alone; what is gone is left out."""
    write_run(runs / "long", [start(), *(progress(step) for step in range(3000))])
    write_run(runs / "evaluated", [start(), evaluation(1, 3.0, True), evaluation(2, 4.0, True)])
    write_run(runs / "new", [start()])
    client = client_of(runs)
    found = client.get("/api/sparks", params={"ids": "runs/b,runs/long,runs/evaluated,runs/new,runs/gone,x"}).json()
    assert found.keys() == {"runs/b", "runs/long", "runs/evaluated", "runs/new"}
    assert found["runs/b"] == [0.5, 1.5]
    assert found["runs/evaluated"] == [3.0, 4.0]
    assert found["runs/new"] == []
    assert 40 <= len(found["runs/long"]) <= compared_curves.POINTS and found["runs/long"] == sorted(found["runs/long"])
    assert found["runs/long"][0] < 10 and found["runs/long"][-1] > 285
    append(runs / "b", [progress(25)])
    assert client.get("/api/sparks", params={"ids": "runs/b"}).json() == {"runs/b": [0.5, 1.5, 2.5]}


def test_names_with_commas_and_percent_signs(runs: Path) -> None:
    """Settings in names are usual: a comma is written `%2C`, a percent sign `%25`."""
    write_run(runs / "lr=0.1,gamma=50%", [start(), progress(5), progress(15)])
    client, ids = client_of(runs), "runs/lr=0.1%2Cgamma=50%25,runs/b"
    assert client.get("/api/sparks", params={"ids": ids}).json().keys() == {"runs/lr=0.1,gamma=50%", "runs/b"}
    curves = client.get("/api/compare", params={"ids": ids, "metric": "episode/return"}).json()["curves"]
    assert [curve["id"] for curve in curves] == ["runs/lr=0.1,gamma=50%", "runs/b"]


def test_curves_of_runs(runs: Path) -> None:
    answer = client_of(runs).get(
        "/api/compare", params={"ids": "runs/b,runs/a-s1,runs/gone", "metric": "episode/return"}
    )
    first, second = answer.json()["curves"]
    assert first == {"id": "runs/b", "label": "b", "x": [5, 15], "y": [0.5, 1.5], "exact": True}
    assert second["id"] == "runs/a-s1"


def test_seeds_are_a_band(runs: Path) -> None:
    """Interquartile mean and bootstrap interval, as the plots have them; a run of its own stays a curve."""
    ids = "runs/a-s0,runs/a-s1,runs/a-s2,runs/b"
    answer = client_of(runs).get("/api/compare", params={"ids": ids, "metric": "episode/return", "bands": "seeds"})
    banded, single = answer.json()["curves"]
    x = np.arange(0.0, 100, 10)
    expected = band([Curve(x, x + seed) for seed in range(3)])
    assert banded["label"] == "a (3 seeds)"
    assert banded["ids"] == ["runs/a-s0", "runs/a-s1", "runs/a-s2"]
    for key, values in (("x", expected.x), ("y", expected.mean), ("low", expected.low), ("high", expected.high)):
        np.testing.assert_allclose(banded[key], values)
    assert single["id"] == "runs/b" and "low" not in single


def test_smoothing(runs: Path) -> None:
    answer = client_of(runs).get("/api/compare", params={"ids": "runs/b", "smoothing": 0.5})
    assert answer.json()["curves"][0]["y"] == pytest.approx([0.5, (0.25 * 0.5 + 0.5 * 1.5) / 0.75])


@pytest.mark.parametrize(
    "query",
    [{}, {"ids": "runs/b", "smoothing": "1"}, {"ids": "runs/b", "bands": "x"}, {"ids": ",".join(map(str, range(501)))}],
)
def test_wrong_queries_are_refused(runs: Path, query: dict[str, str]) -> None:
    answer = client_of(runs).get("/api/compare", params=query)
    assert answer.status_code == 400 and answer.json()["error"]
