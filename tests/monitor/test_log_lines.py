"""Plain lines: few, and nothing important is missing."""

from __future__ import annotations

import io
import sys

import pytest

from monitor import telling
from rookery.monitor.events import Event
from rookery.monitor.log_lines import LogLines, make_console_sink


def told(events: list[Event]) -> list[str]:
    stream = io.StringIO()
    sink = LogLines(stream=stream)
    for event in events:
        sink.write(event)
    sink.close()
    return stream.getvalue().splitlines()


def progress_steps(events: list[Event]) -> list[int]:
    lines = [line for line in told(events) if "steps" in line and "return" in line]
    return [int(line.split(" %")[1].split("steps")[0].replace(",", "")) for line in lines]


def test_a_short_run_gets_a_line_every_two_seconds() -> None:
    """A run of 10 s, told twice a second."""
    events = [telling.progress(5000 * i, 1000 + 0.5 * i) for i in range(1, 21)]
    assert progress_steps([telling.start(), *events]) == [20_000, 40_000, 60_000, 80_000, 100_000]


def test_a_long_run_gets_a_line_every_two_percent() -> None:
    """A run of 1,000 s has fifty lines, not five hundred."""
    events = [telling.progress(50 * i, 1000 + 0.5 * i) for i in range(1, 2001)]
    assert progress_steps([telling.start(), *events]) == list(range(2000, 100_001, 2000))


def test_a_slow_run_gets_a_line_every_thirty_seconds() -> None:
    """Nobody wonders whether it still runs."""
    events = [telling.progress(i, 1000.0 + i) for i in range(1, 121)]
    assert progress_steps([telling.start(), *events]) == [30, 60, 90, 120]


def test_compiling_is_told_every_few_seconds() -> None:
    """Who sees a run for the first time on a machine knows why it takes long."""
    names = [Event("doing", 0, {"text": f"compiling {k}", "compiling": True}, 1000.0 + k) for k in range(1, 13)]
    others = [Event("doing", 0, {"text": "evaluating"}, 1020.0)]
    assert told([telling.start(), *names, *others])[1:] == ["compiling 5", "compiling 10"]


def test_a_line_holds_the_figures() -> None:
    (line,) = told([telling.progress(50_000, 1010.0)])
    assert line == "50,000 steps  12,346/s  1 min 20 s left  return 123.4  length 321.5  episodes 812"


def test_a_line_about_the_first_steps_has_no_speed() -> None:
    (line,) = told([telling.progress(1024, 1010.0, steps_per_second=None, eta_seconds=None)])
    assert line == "1,024 steps  return 123.4  length 321.5  episodes 812"


def test_a_line_says_how_fast_episodes_end() -> None:
    (line,) = told([telling.progress(50_000, 1010.0, episodes_per_second=1234.5, episodes_in_rollout=47)])
    assert line.endswith("episodes 812 (1,234/s, 47 in the last rollout)")


def test_the_first_line_names_workers_and_start_method() -> None:
    line, *_ = told([telling.start(backend="process", workers=1, start_method="forkserver")])
    assert "process backend, 1 worker (forkserver), cpu" in line


def test_evaluations_and_notes_are_always_told() -> None:
    """They come when they come, whatever was printed last."""
    lines = told(
        [telling.start(), telling.evaluation(100), telling.note("resized to 16 envs"), telling.evaluation(200)]
    )
    assert lines == [
        "CartPole-v1: ppo, 8 envs, serial backend, cpu in runs/CartPole-v1_ppo",
        "evaluation at 100: 456.8 +- 12 over 20 episodes, the best so far",
        "note: resized to 16 envs",
        "evaluation at 200: 456.8 +- 12 over 20 episodes, the best so far",
    ]


def test_the_end_is_the_summary() -> None:
    assert told([telling.end()])[0] == "CartPole-v1_ppo: finished"


def test_a_stream_that_cannot_spell_it_gets_a_question_mark() -> None:
    """A log in ASCII goes on."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    LogLines(stream=stream).write(telling.note("zwölf"))
    assert raw.getvalue() == b"note: zw?lf\n"


class Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "err", "term", "panel", "chosen"),
    [
        (Screen(), Screen(), "xterm", True, "LivePanel"),
        (io.StringIO(), Screen(), "xterm", True, "LivePanel"),
        (Screen(), io.StringIO(), "xterm", True, "LivePanel"),
        (io.StringIO(), io.StringIO(), "xterm", True, "LogLines"),
        (Screen(), Screen(), "dumb", True, "LogLines"),
        (Screen(), Screen(), "xterm", False, "LogLines"),
        (None, None, "xterm", True, "LogLines"),
    ],
)
def test_the_panel_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch, out: object, err: object, term: str, panel: bool, chosen: str
) -> None:
    """Pipes, dumb terminals and those who ask get lines."""
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("TERM", term)
    assert type(make_console_sink(100, panel=panel)).__name__ == chosen
