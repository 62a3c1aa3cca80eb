"""What a run reports while it compiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.monitor.events import Event, Sinks
from rookery.training.run.outputs import RunOutputs


class Recorder:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("seconds", "noted"), [(27.0, True), (0.3, False)])
def test_compiling_is_shown_and_then_noted(seconds: float, noted: bool, tmp_path: Path) -> None:
    """Its name while it is compiled; how long all of it took with the next event, if that was noticed at all."""
    recorder, nothing = Recorder(), None
    others: dict[str, Any] = dict.fromkeys(("checkpoints", "watch", "episode_file", "system", "mirror"), nothing)
    outputs = RunOutputs(path=tmp_path, sinks=Sinks([recorder]), **others)
    outputs.tell_compiling("the learner's run_epoch", None)
    (doing,) = recorder.events
    assert doing.kind == "doing" and "the learner's run_epoch" in doing.values["text"] and doing.values["compiling"]
    assert "once on this machine" in doing.values["text"] and "0 s so far" in doing.values["text"]
    outputs.tell_compiling("the learner's run_epoch", seconds)
    outputs.event("progress")
    outputs.event("progress")
    notes = [event.values["text"] for event in recorder.events if event.kind == "note"]
    assert [f"{seconds:.0f} s" in text and "from disk" in text for text in notes] == [True] * noted
