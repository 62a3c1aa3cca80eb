"""The panel: what it shows, that it fits, what it costs, and how it leaves the screen."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import textwrap
from itertools import count

import pytest
from rich.console import Console

from monitor import telling
from rookery.monitor.events import Event, RunState
from rookery.monitor.live_panel import SHARE, LivePanel, RedrawBudget, RunPanel

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def picture_of(events: list[Event]) -> RunState:
    state = RunState()
    for event in events:
        state.add(event)
    return state


def rendered(events: list[Event], width: int = 80, height: int = 24) -> list[str]:
    console = Console(record=True, width=width, height=height, file=io.StringIO())
    console.print(RunPanel(picture_of(events)))
    return console.export_text().splitlines()


def screen(width: int = 80, height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height)


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_panel_shows_what_matters(width: int) -> None:
    """Everything a person asks of a run is there at both usual widths."""
    text = "\n".join(rendered(telling.whole_run(), width, 30))
    for expected in (
        "CartPole-v1_ppo · CartPole-v1",
        "ppo  ·  8 envs  ·  serial backend  ·  cpu",
        "100,000 / 100,000",
        "12,346 steps/s",
        "1 min 20 s left",
        "return     500",
        "length     321.5",
        "episodes   812",
        "456.8 ± 12 at 50,000",
        "saved      at 90,000  (2.3 MB in 0.1 s)",
        "policy",
        "-0.0123",
        "learning rate",
        "env 70 %",
        "learner 15 %",
        "eval 0 %",
        "other 5 %",
        "70 % of the time is spent on stepping envs one after another;",
        "• third note",
    ):
        assert expected in text
    assert "█" in text and "▁" in text


def test_the_settings_fit_a_usual_terminal() -> None:
    """With workers, start method and groups they are closer together."""
    start = telling.start(backend="process", workers=2, start_method="forkserver", groups=2)
    line = "ppo · 8 envs · process backend · 2 workers (forkserver) · 2 groups · cpu"
    assert line in rendered([start], 80)[1] and line.replace(" · ", "  ·  ") in rendered([start], 120)[1]


@pytest.mark.parametrize("events", [[], [telling.start()], telling.whole_run(), [*telling.whole_run(), telling.end()]])
@pytest.mark.parametrize("size", [(80, 24), (120, 24), (60, 16), (40, 10), (24, 8), (200, 60), (10, 4)])
def test_the_panel_fits(events: list[Event], size: tuple[int, int]) -> None:
    """It is never wider than the screen nor as high, from the first event on."""
    width, height = size
    lines = rendered(events, width, height)
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= max(height - 1, 4)  # progress itself is never left out


def test_where_rows_are_short_the_least_important_goes_first() -> None:
    """A 24-row terminal keeps the latest note; a 12-row one the figures."""
    assert any("third note" in line for line in rendered(telling.whole_run(), 80, 24))
    small = "\n".join(rendered(telling.whole_run(), 80, 12))
    assert "note" not in small and "100,000 / 100,000" in small and "return" in small


def test_something_long_is_shown_while_it_lasts() -> None:
    """`doing` stands at the panel's foot until the next event; a note does not end it."""
    doing = Event("doing", 10, {"text": "evaluating, 20 episodes"})
    assert "evaluating, 20 episodes …" in rendered([telling.start(), doing, telling.note("x")])[-1]
    assert "evaluating" not in "\n".join(rendered([telling.start(), doing, telling.evaluation(10)]))


def test_a_run_without_a_number_of_steps_shows_where_it_is() -> None:
    text = "\n".join(rendered([telling.start(steps=None), telling.progress(5000, 1001.0)]))
    assert "5,000 steps" in text and "%   " not in text.split("return")[0]


@pytest.mark.parametrize("kind", ["doing", "checkpoint", "note"])
def test_steps_and_share_are_of_one_moment(kind: str) -> None:
    """An event after the last line of progress moves both."""
    events = [telling.start(), telling.progress(26_112, 1001.0, share=0.26112), Event(kind, 30_720, {"text": "x"})]
    text = "\n".join(rendered(events))
    assert "30,720 / 100,000" in text and "31 %" in text and "26 %" not in text


def test_where_episodes_end_the_run_its_steps_are_not_set_against_their_limit() -> None:
    """60 % of a run that ends by episodes is not 5,000 of 100,000 steps."""
    text = "\n".join(rendered([telling.start(), telling.progress(5000, 1001.0, share=0.6)]))
    assert "60 %" in text and "5,000 steps" in text and "100,000" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_of_episodes_fits_a_usual_terminal(width: int) -> None:
    """Its steps are left out where there is no room for them; the time that is left is not cut."""
    events = [telling.start(steps=None, episodes=1000), telling.progress(5000, 1001.0, share=0.6, episodes=600)]
    text = "\n".join(rendered(events, width))
    assert "episode 600 / 1,000 " in text and "1 min 20 s left" in text and ("5,000 steps" in text) == (width == 120)


def test_the_time_of_a_resumed_run_is_that_of_all_its_parts() -> None:
    """As its summary has it."""
    text = "\n".join(rendered([telling.start(), telling.progress(500, 1010.0, seconds=7500.0)]))
    assert "2 h 5 min elapsed" in text


def test_how_fast_episodes_end() -> None:
    fast = telling.progress(500, 1010.0, episodes_per_second=38.25, episodes_in_rollout=47)
    text = "\n".join(rendered([telling.start(), fast]))
    assert "mean of the last 100" in text and "38.2/s, 47 in the last rollout" in text


def test_the_best_evaluation_stays_known() -> None:
    worse = telling.evaluation(60_000, **{"eval/return": 3.0, "eval/best": False})
    text = "\n".join(rendered([telling.start(), telling.evaluation(50_000), worse]))
    assert "3 ± 12 at 60,000   best 456.8 at 50,000" in text


def test_a_change_of_num_envs_is_followed() -> None:
    resized = Event("note", 5, {"text": "16 envs now", "num_envs": 16})
    assert "16 envs  ·" in "\n".join(rendered([telling.start(), resized]))


def test_the_time_shares_follow_slowly() -> None:
    """A rollout and an update that alternate do not make the advice flicker."""
    state = picture_of([telling.start(), telling.progress(1, 1000.0)])
    state.add(telling.progress(2, 1000.5, **{"time/env": 0.0, "time/learner": 0.85}))
    assert 0.6 < state.shares["env"] < 0.7
    assert sum(state.shares.values()) == pytest.approx(1.0)


def test_the_last_state_stays_and_the_cursor_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    """After the end the panel stands complete, the cursor is shown, and the summary follows on standard output."""
    console = screen()
    terminal = LivePanel(console=console)
    for event in [*telling.whole_run(), telling.end()]:
        terminal.write(event)
    terminal.close()
    output = drawn(console)
    assert output.count(HIDE) == output.count(SHOW) == 1
    last = output[output.rindex("╭") :]
    assert "100,000 / 100,000" in last and "finished" in last and last.index("╯") < last.index(SHOW)
    assert capsys.readouterr().out.startswith("CartPole-v1_ppo: finished\n")


def test_progress_is_drawn_at_most_four_times_a_second() -> None:
    """A hundred events in a second make five drawings, the first one included."""
    ticks = [0.0]
    console = screen()
    terminal = LivePanel(console=console, clock=lambda: ticks[0])
    terminal.write(telling.start())
    for i in range(100):
        ticks[0] += 0.01
        terminal.write(telling.progress(i, 1000 + i / 100))
    drawings = drawn(console).count("╭")
    terminal.close()
    assert 3 <= drawings <= 6


def test_drawing_is_paid_for_from_a_budget() -> None:
    """On a screen so slow that a drawing takes 50 ms, it happens every 5 s: one percent of the time."""
    ticks = [0.0]
    budget = RedrawBudget(lambda: ticks[0])
    spent = 0.0
    for _ in count():
        ticks[0] += 0.1
        if budget.allows(urgent=True):
            with budget:
                ticks[0] += 0.05
            spent += 0.05
        if ticks[0] > 200:
            break
    assert 0.8 * SHARE < spent / ticks[0] < 1.15 * SHARE


def test_a_resized_screen_is_cleared() -> None:
    """Rows that the terminal has wrapped again cannot be found again, so it starts on a clean screen."""
    console = screen()
    terminal = LivePanel(console=console, clock=lambda: 0.0)
    terminal.write(telling.start())
    console.size = (100, 30)  # type: ignore[assignment]
    terminal.write(telling.evaluation(10))
    terminal.close()
    output = drawn(console)
    assert output.count("\x1b[2J") == 1
    assert "─" * 50 in output[output.index("\x1b[2J") :]


IN_A_TERMINAL = """
    import sys
    from monitor import telling
    from rookery.monitor.events import Sinks
    from rookery.monitor.log_lines import make_console_sink
    from rookery.console import say
    say("before")
    sinks = Sinks([make_console_sink()])
    sinks.write(telling.start())
    say("said while it runs")
    print("printed while it runs")
    {then}
"""


def in_a_terminal(then: str) -> str:
    """What a program writes to a real (pseudo) terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    code = textwrap.dedent(IN_A_TERMINAL).format(then=then)
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", "COLUMNS": "80", "LINES": "24"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    chunks = []
    try:
        while chunk := os.read(ours, 65536):
            chunks.append(chunk)
    except OSError:  # Linux says so when the other end is gone
        pass
    child.wait()
    os.close(ours)
    return b"".join(chunks).decode()


@pytest.mark.few(1)
@pytest.mark.parametrize("then", ["sinks.write(telling.end())", "1 / 0", "raise KeyboardInterrupt", "sys.exit(3)"])
def test_a_terminal_is_left_clean_however_the_program_ends(then: str) -> None:
    """Cursor shown after it was hidden, also when nobody closed anything."""
    output = in_a_terminal(then)
    assert HIDE in output and output.rindex(SHOW) > output.rindex(HIDE)


def test_what_is_said_meanwhile_stands_above_the_panel() -> None:
    """Log lines and prints do not tear the panel; the panel is drawn again below them."""
    output = in_a_terminal("sinks.close()")
    for text in ("rookery: said while it runs", "printed while it runs"):
        assert "╭" in output[output.index(text) :]
        assert f"{text}\r\n" in output


def test_a_forked_worker_has_no_panel() -> None:
    """What a child prints goes out as it is; the panel stays its parent's."""
    child = "print('from the child', flush=True), say('said by the child'), os._exit(0)"
    output = in_a_terminal(f"import os; pid = os.fork() or ({child}); os.waitpid(pid, 0); os._exit(0)")
    assert "╭" not in output[output.index("from the child") :]
    assert "rookery: said by the child" in output


def test_log_handlers_get_their_stream_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the panel is open, what they say goes above it; afterwards everything is as before."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", stream := Screen())
    logger = logging.getLogger("rookery")
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    try:
        terminal = LivePanel(console=screen())
        terminal.write(telling.start())
        assert handler.stream is not stream
        terminal.close()
        assert handler.stream is stream and sys.stderr is stream
    finally:
        logger.removeHandler(handler)


def test_a_cluster_is_shown() -> None:
    """Its nodes, what is in flight, how old it is, what travels, who works, and where its own dashboard is."""
    figures = {
        "cluster/nodes": 2, "cluster/collectors": 4, "cluster/lost": 1, "cluster/in_flight": 8, "cluster/staleness": 3,
        "cluster/bytes_per_second": 1.25e6, "cluster/busy": 0.9, "time/env": 0.0, "time/waiting": 0.55,
        "time/learner": 0.25, "time/policy": 0.1, "time/other": 0.1,
    }  # fmt: skip
    start = telling.start(collectors=["node a: envs 0 to 3"], cluster_dashboard="http://127.0.0.1:8265")
    text = "\n".join(rendered([start, telling.progress(1000, 1001.0, **figures)], 100, 40))
    for expected in (
        "cluster    2 nodes   4 collectors   1 lost   8 in flight   staleness 3   1.2 MB/s   learner 35 %",
        "collectors 90 %   waiting 55 %   Ray's dashboard: http://127.0.0.1:8265",
        "55 % of the time is spent on waiting for collectors; more nodes",
    ):
        assert expected in text
    assert "cluster" not in "\n".join(rendered(telling.whole_run(), 100, 40))
