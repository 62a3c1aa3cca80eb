"""The picture: drawn whatever there is to draw."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from monitor import telling
from rookery.errors import MissingExtra
from rookery.monitor.events import Event
from rookery.monitor.jsonl import JsonLines
from rookery.monitor.plots import draw, plot_run

pytest.importorskip("matplotlib")


def told(folder: Path, events: list[Event]) -> Path:
    sink = JsonLines(folder)
    for event in events:
        sink.write(event)
    sink.close()
    return folder / "metrics.jsonl"


def few(n: int) -> list[Event]:
    points = [telling.progress(100 * i, 1000.0 + i) for i in range(n)]
    return [telling.start(), *points, *(telling.evaluation(100 * i) for i in range(n))]


NAN = float("nan")
RUNS = {
    "nothing": [],
    "no points": few(0),
    "one point": few(1),
    "two points": few(2),
    "a whole run": telling.whole_run(),
    "no numbers": [telling.progress(i, 1.0, **{"episode/return": NAN, "loss/value": NAN}) for i in range(5)],
    "zeros": [telling.progress(i, 1.0, **{"loss/value": 0.0, "loss/policy": 0.0}) for i in range(5)],
    "evaluations alone": [telling.evaluation(i, **{"eval/return_low": None}) for i in range(5)],
}


@pytest.mark.parametrize("which", RUNS)
def test_every_run_has_a_picture(which: str, tmp_path: Path) -> None:
    """None, one or two points, no numbers at all: a PNG comes out, and nothing beside it."""
    out = draw(told(tmp_path, RUNS[which]), tmp_path / "plots" / "learning.png")
    assert out.read_bytes().startswith(b"\x89PNG") and len(out.read_bytes()) > 5_000
    assert [path.name for path in out.parent.iterdir()] == ["learning.png"]


def test_no_global_state_is_touched(tmp_path: Path) -> None:
    """The picture needs no pyplot, which would pick a backend for the whole program."""
    code = "import sys; from rookery.monitor.plots import draw; draw(*sys.argv[1:])"
    code += "; assert 'matplotlib.pyplot' not in sys.modules"
    out = tmp_path / "out.png"
    subprocess.run([sys.executable, "-c", code, str(told(tmp_path, few(2))), str(out)], check=True)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"rookery\[plot\]"):
        draw(told(tmp_path, few(2)), tmp_path / "out.png")


def test_a_run_survives_a_picture_that_cannot_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`plot_run` says why in one line; where it can, it draws in the run's folder."""
    with caplog.at_level(logging.INFO, "rookery"):
        assert plot_run(tmp_path / "nowhere") is None
    assert len(caplog.records) == 1 and "the plot was not drawn" in caplog.text
    told(tmp_path, few(2))
    assert plot_run(tmp_path) == tmp_path / "plots" / "learning.png"
