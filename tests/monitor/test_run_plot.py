"""The picture: drawn whatever there is to draw."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from monitor import telling
from rookery.errors import MissingExtra
from rookery.monitor import plot_process, plots
from rookery.monitor.events import Event
from rookery.monitor.jsonl import JsonLines
from rookery.monitor.plots import draw, plot_run

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.draws


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


@pytest.mark.slow
@pytest.mark.parametrize("which", RUNS)
def test_every_run_has_a_picture(which: str, tmp_path: Path) -> None:
    """None, one or two points, no numbers at all: a PNG comes out, and nothing beside it."""
    out = draw(told(tmp_path, RUNS[which]), tmp_path / "plots" / "learning.png")
    assert out.read_bytes().startswith(b"\x89PNG") and len(out.read_bytes()) > 5_000
    assert [path.name for path in out.parent.iterdir()] == ["learning.png"]


def test_every_panel_says_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A title above each, and a legend that names the raw line where there is a smoothed one beside it."""
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, out: drawn.append(figure))
    draw(told(tmp_path, few(40)), tmp_path / "out.png")
    returns, length, losses, speed = drawn[0].axes
    titles = [axes.get_title(loc="left") for axes in drawn[0].axes]
    assert len(set(titles)) == 4 and all(titles)
    assert "mean of the last 100" in titles[1]
    for axes in (losses, speed):
        named = [text.get_text() for text in axes.get_legend().get_texts()]
        assert named[-2:] == ["raw", "smoothed"]
    assert len(length.lines) == 1
    assert [line.get_label() for line in returns.lines if "episodes" in line.get_label()] == [
        "episodes, mean of the last 100"
    ]


def test_a_mean_is_not_smoothed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Returns and lengths are means of 100 episodes as they are."""
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, out: drawn.append(figure))
    steep = [telling.progress(i, 1.0, **{"episode/return": 100.0 * (i % 2)}) for i in range(100)]
    draw(told(tmp_path, steep), tmp_path / "out.png")
    assert set(drawn[0].axes[0].lines[0].get_ydata()) == {0.0, 100.0}


@pytest.mark.slow
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


# --- in a process of its own ------------------------------------------------------------------------------------------


@pytest.fixture
def pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the start of a command, on a machine with an idle core."""
    monkeypatch.setattr(plot_process, "_pays", lambda: True)


@pytest.mark.slow
def test_the_process_draws_the_same_picture(tmp_path: Path, pays: None) -> None:
    here = draw(told(tmp_path, few(2)), tmp_path / "here.png")
    with plot_process.imported_early():
        (process,) = plot_process._ready
        there = plot_process.plot_run_early(tmp_path)
    assert there == tmp_path / "plots" / "learning.png" and there.read_bytes() == here.read_bytes()
    assert process.poll() == 0 and not plot_process._ready


@pytest.mark.slow
def test_the_process_says_why_it_could_not_draw(tmp_path: Path, pays: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rookery"), plot_process.imported_early():
        assert plot_process.plot_run_early(tmp_path / "nowhere") is None
    assert len(caplog.records) == 1 and "the plot was not drawn" in caplog.text


def test_a_process_that_has_ended_is_not_needed(tmp_path: Path, pays: None) -> None:
    """It ends by itself in a long run, and can be killed."""
    told(tmp_path, few(2))
    with plot_process.imported_early():
        plot_process._ready[0].kill()
        plot_process._ready[0].wait()
        assert plot_process.plot_run_early(tmp_path) == tmp_path / "plots" / "learning.png"


def test_no_process_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not if there is no plot, or if torch is here already."""
    with plot_process.imported_early(wanted=False):
        assert not plot_process._ready
    monkeypatch.setitem(sys.modules, "torch", sys)
    with plot_process.imported_early():
        assert not plot_process._ready


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    """Also if that is killed."""
    code = """
import os, signal
from rookery.monitor import plot_process, plots
plot_process._pays = lambda: True
with plot_process.imported_early():
    print(plot_process._ready[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    answer = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    gone = time.monotonic() + 30
    while psutil.pid_exists(pid := int(answer.stdout)) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < gone, "it is still there"
        time.sleep(0.05)
