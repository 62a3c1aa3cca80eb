"""Curves of a run's metrics: as `monitor/statistics.py` reads them, for files of any length."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.monitor import column_file
from rookery.monitor.events import Event
from rookery.monitor.jsonl import JsonLines
from rookery.monitor.statistics import read_curve
from rookery.web.run_views import column_cache, metric_reader
from rookery.web.run_views.column_cache import build
from rookery.web.run_views.metric_reader import MetricReader
from web.run_views.recorded import START, append, client_of, evaluation, progress, start, write_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that was resumed from step 300, with a pause before; later events replace those after step 300."""
    before = [start(), *(progress(step) for step in range(0, 500, 10)), evaluation(300, 7.0, True)]
    resumed = start(at=START + 1000, resumed_from=300) | {"step": 300}
    after = [progress(step, at=START + 1000 + step, **{"episode/return": -1.5}) for step in range(310, 400, 10)]
    return write_run(tmp_path / "runs" / "a", [*before, resumed, *after, evaluation(390, 8.0, True)])


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is long: as if it had millions of lines."""
    monkeypatch.setattr(metric_reader, "SMALL", 100_000)
    monkeypatch.setattr(metric_reader, "LONG_WITHOUT", 25_000)


def data(run: Path, **query: Any) -> dict[str, Any]:
    query = {"names": "episode/return", **query}
    answer = client_of(run.parent).get(f"/api/runs/runs/{run.name}/metrics/data", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("axis", ["steps", "time", "episodes"])
@pytest.mark.parametrize("metric", ["episode/return", "eval/return"])
def test_curves_are_those_of_the_plots(
    run: Path, metric: str, axis: str, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a resume, and from the columns in the cache with lines that came later."""
    if cached:
        build(run / "metrics.jsonl")
        monkeypatch.setattr(metric_reader, "SMALL", 2000)
        monkeypatch.setattr(metric_reader, "LONG_WITHOUT", 500)
    append(run, [progress(410, at=START + 1500, **{"episode/return": 99.0})])
    if cached:
        with (run / "metrics.jsonl").open("a") as file:
            file.write('{"kind": "progress", "st')
    expected = read_curve(run / "metrics.jsonl", metric, axis)
    found = data(run, names=metric, x=axis)
    assert found["exact"] and not found["sampled"]
    np.testing.assert_allclose(found["x"], expected.x)
    np.testing.assert_allclose(found["series"][metric], expected.y)
    assert found["range"] == [expected.x[0], expected.x[-1]]


def test_a_growing_file_is_read_on(run: Path) -> None:
    """Only new lines are read, and a file that was replaced is read again."""
    reader = MetricReader()

    def last() -> tuple[float, float]:
        x, y = reader.curves(run / "metrics.jsonl", ["episode/return"]).curves.curve("episode/return")
        return float(x[-1]), float(y[-1])

    assert last() == (390, -1.5)
    append(run, [progress(400)])
    assert last() == (400, 40.0)
    text = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(text[:5]))
    assert last()[0] == 30
    reader.close()


def test_spikes_survive_decimation(tmp_path: Path) -> None:
    """The least and the largest value of every pixel column are drawn; a zoom shows all points."""
    spike = {4321: 1e6, 7777: -1e6}
    events = [progress(step, **{"episode/return": spike.get(step, 1.0)}) for step in range(10_000)]
    run = write_run(tmp_path / "runs" / "a", [start(), *events])
    found = data(run, points=200)
    values = found["series"]["episode/return"]
    assert len(values) <= 200 and not found["exact"] and not found["sampled"]
    assert max(values) == 1e6 and min(values) == -1e6
    assert found["range"] == [0, 9999]
    zoomed = data(run, points=200, **{"from": 4300, "to": 4400})
    assert zoomed["exact"]
    assert zoomed["x"] == list(range(4299, 4402))
    assert zoomed["range"] == [0, 9999]


@pytest.mark.slow
@pytest.mark.usefixtures("long")
def test_a_long_file_is_sampled_at_first_and_exact_soon(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "a", [start(), *(progress(step) for step in range(5000))])
    query = {"names": "episode/return", "points": 5}
    with client_of(run.parent) as client:
        found = client.get("/api/runs/runs/a/metrics/data", params=query).json()
        assert found["sampled"] and not found["exact"]
        assert found["range"][0] <= 100 and found["range"][1] >= 4900
        np.testing.assert_allclose(found["series"]["episode/return"], np.array(found["x"]) / 10)
        zoomed = client.get("/api/runs/runs/a/metrics/data", params=query | {"from": 2500, "to": 2504}).json()
        assert zoomed["exact"]
        assert zoomed["range"] == [0, 4999]
        assert [x for x in zoomed["x"] if 2500 <= x <= 2504] == [2500, 2501, 2502, 2503, 2504]
        for _ in range(200):
            found = client.get("/api/runs/runs/a/metrics/data", params=query | {"points": 6000}).json()
            if found["exact"]:
                break
            time.sleep(0.1)
        assert found["x"] == list(range(5000))
        names = client.get("/api/runs/runs/a/metrics").json()
        assert {"name": "episode/return", "points": 5000} in names["names"] and names["exact"]


def test_names_of_metrics(run: Path) -> None:
    answer = client_of(run.parent).get("/api/runs/runs/a/metrics").json()
    assert {"name": "eval/return", "points": 2} in answer["names"]
    assert answer["axes"] == ["steps", "time", "episodes"]
    assert "eval/best" not in [found["name"] for found in answer["names"]]


def test_odd_lines_are_skipped(tmp_path: Path) -> None:
    """Damaged lines, texts, nulls, bools, NaN and endless integers."""
    run = write_run(tmp_path / "runs" / "a", [start(), progress(1)])
    odd: list[Any] = ["x", None, True, [1], 10**400, float("nan"), 5]
    lines = [json.dumps(progress(step, **{"episode/return": value})) for step, value in enumerate(odd, start=2)]
    lines += ["{", "[]", "7", '{"kind": "progress"}', '{"kind": [], "step": 99, "time": 1}']
    lines += [json.dumps({"kind": "progress", "step": "many", "time": {}, "episode/return": 3})]
    with (run / "metrics.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")
    found = data(run)
    assert found["x"] == [1, 6, 7, 8]
    assert found["series"]["episode/return"] == [0.1, None, None, 5]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"x": "miles"}, "x is 'miles'; it should be one of steps, time, episodes"),
        ({"names": ""}, "names is missing"),
        ({"names": ",".join(map(str, range(200)))}, "names has 200 names; at most 100"),
        ({"from": "nan"}, "from is 'nan'; it should be a number"),
    ],
)
def test_wrong_queries_are_refused(run: Path, query: dict[str, str], error: str) -> None:
    answer = client_of(run.parent).get("/api/runs/runs/a/metrics/data", params={"names": "a", **query})
    assert answer.status_code == 400
    assert error in answer.json()["error"]


def test_metrics_that_are_asked_for_one_after_the_other(run: Path) -> None:
    """What is kept of a file contains some metrics only, and grows with the file."""
    metrics, reader = run / "metrics.jsonl", MetricReader()

    def shown(reader: MetricReader, *names: str, axis: str = "steps") -> list[list[float]]:
        curves = reader.curves(metrics, names, axis).curves
        return [part.tolist() for name in names for part in curves.curve(name)]

    questions = [(("episode/return",), "steps"), (("eval/return",), "steps"), (("episode/return",), "episodes")]
    for names, axis in [*questions, (("episode/return", "eval/return", "a", "b", "c"), "time"), *questions]:
        append(run, [progress(400 + len(names), **{"episode/return": 3.0})])
        assert shown(reader, *names, axis=axis) == shown(MetricReader(), *names, axis=axis)


def test_runs_without_metrics_and_links(run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "new", [])
    (tmp_path / "runs" / "linked").mkdir()
    (tmp_path / "runs" / "linked" / "metrics.jsonl").symlink_to(run / "metrics.jsonl")
    assert data(tmp_path / "runs" / "new")["series"] == {"episode/return": []}
    client = client_of(tmp_path / "runs")
    for name in ("linked", "gone", ".."):
        assert client.get(f"/api/runs/runs/{name}/metrics").status_code == 404


def test_the_cache_is_bounded(cache: Path) -> None:
    """The columns written longest ago go first."""
    base = cache / "metric-columns"
    for name in ("a", "b", "c"):
        (base / name).mkdir(parents=True)
        (base / name / "steps").write_bytes(bytes(1000))
    column_cache.forget_oldest(base, keep=base / "c", most=1500)
    assert [path.name for path in base.iterdir()] == ["c"]


@pytest.mark.parametrize("axis", ["steps", "time", "episodes"])
def test_columns_of_the_run_are_read_with_the_lines_after_them(tmp_path: Path, axis: str, monkeypatch: Any) -> None:
    """One reader from the first event of a run on, over a resume and a damaged file of columns, and one that comes
    later: all curves are those of the lines."""
    monkeypatch.setattr(column_file, "BLOCK", 2000)
    run, reader = write_run(tmp_path / "runs" / "a", []), MetricReader()
    metrics = run / "metrics.jsonl"
    for first, last in ((0, 60), (40, 90), (90, 95), (95, 130)):
        lines = JsonLines(run)
        lines.write(Event("start", first, {"resumed_from": first or None}, time=START + first))
        for step in range(first, last):
            values = {name: value for name, value in progress(step).items() if name not in ("kind", "step", "time")}
            lines.write(Event("progress", step, values, time=START + step))
            if step % 7 == 0:
                for one in (reader, MetricReader()):
                    x, y = one.curves(metrics, ["episode/return"], axis).curves.curve("episode/return")
                    expected = read_curve(metrics, "episode/return", axis)
                    np.testing.assert_allclose(x, expected.x)
                    np.testing.assert_allclose(y, expected.y)
                    counted = sum(b"episode/return" in line for line in metrics.read_bytes().splitlines())
                    assert one.names(metrics)[0]["episode/return"] == counted
        lines.close()
        with (run / "metrics.columns").open("r+b") as file:
            file.truncate(file.seek(0, 2) - 3)
    assert (run / "metrics.columns").stat().st_size > 2000
