"""Events and sinks: a sink that fails costs the run nothing."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from monitor import telling
from rookery.monitor.events import Event, Sinks, scalars


class Kept:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = 0

    def write(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1


class Full(Kept):
    def write(self, event: Event) -> None:
        super().write(event)
        raise OSError(28, "No space left on device")


def test_every_sink_gets_every_event() -> None:
    """Sinks hand each event on, in order."""
    first, second = Kept(), Kept()
    sinks = Sinks([first, second])
    for event in telling.whole_run():
        sinks.write(event)
    assert first.events == second.events == telling.whole_run()


def test_a_failing_sink_is_dropped_once(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk costs a sink its place, in one line; the others go on."""
    before, full, after = Kept(), Full(), Kept()
    sinks = Sinks([before, full, after])
    with caplog.at_level(logging.INFO, "rookery"):
        for event in telling.whole_run():
            sinks.write(event)
    assert [record.message for record in caplog.records] == [
        "Full failed and is removed, the run continues without it: [Errno 28] No space left on device"
    ]
    assert len(full.events) == 1 and full.closed == 1
    assert before.events == after.events == telling.whole_run()
    assert list(sinks) == [before, after]


def test_ctrl_c_inside_a_sink_is_not_swallowed() -> None:
    """Only errors are the sink's own; an interrupt belongs to the run."""

    class Interrupted(Kept):
        def write(self, event: Event) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sinks([Interrupted()]).write(telling.start())


def test_sinks_close_once_even_when_an_exception_passes() -> None:
    """Leaving the block closes each sink, and closing again does nothing."""
    kept = Kept()
    sinks = Sinks([kept])
    with pytest.raises(ZeroDivisionError), sinks:
        _ = 1 / 0
    sinks.close()
    assert kept.closed == 1


def test_a_sink_that_cannot_close_does_not_keep_the_others_open() -> None:
    class Stuck(Kept):
        def close(self) -> None:
            raise OSError("gone")

    kept = Kept()
    Sinks([kept, Stuck()]).close()
    assert kept.closed == 1


def test_scalars_are_the_numbers_of_progress_and_evaluations() -> None:
    """Flags, texts and other kinds of events are not points of a curve."""
    assert scalars(telling.start()) == {} == scalars(telling.end())
    assert scalars(Event("progress", 1, {"a": 1, "b": 0.5, "c": True, "d": "x", "e": None})) == {"a": 1.0, "b": 0.5}


def test_events_carry_the_time_they_were_made() -> None:
    assert Event("note", 1).time > 1.7e9


def test_importing_the_monitor_is_light() -> None:
    """Neither torch, matplotlib nor rich comes in before it is needed."""
    names = "events formatting bottleneck jsonl trackers log_lines run_summary plots statistics system_figures"
    code = f"""
import importlib, sys
for name in "{names}".split():
    importlib.import_module("rookery.monitor." + name)
print([name for name in ("torch", "matplotlib", "rich", "wandb", "mlflow", "tensorboard") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
