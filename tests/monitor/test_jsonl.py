"""Metrics as JSON lines: strict, whole, and readable after a crash."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from monitor import telling
from rookery.monitor import jsonl
from rookery.monitor.events import Event
from rookery.monitor.jsonl import JsonLines, history, read


def strict(text: str) -> dict:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    """Events come back as they were; evaluations also stand in a file of their own."""
    sink = JsonLines(tmp_path)
    for event in telling.whole_run():
        sink.write(event)
    assert read(tmp_path / "metrics.jsonl") == telling.whole_run()  # before it is closed: every line is out
    sink.close()
    sink.close()
    assert read(tmp_path / "evaluations.jsonl") == [telling.evaluation(50_000)]


def test_numbers_that_are_none_become_null(tmp_path: Path) -> None:
    """NaN and infinity are not JSON, and NumPy's numbers are not Python's."""
    values = {"a": float("nan"), "b": float("-inf"), "c": np.float32(0.5), "d": np.int64(3), "e": [float("inf"), 1]}
    sink = JsonLines(tmp_path)
    sink.write(Event("progress", 7, {**values, "f": tmp_path}, time=2.0))
    sink.close()
    line = strict((tmp_path / "metrics.jsonl").read_text())
    expected = {"a": None, "b": None, "c": 0.5, "d": 3, "e": [None, 1], "f": str(tmp_path)}
    assert line == {"kind": "progress", "step": 7, "time": 2.0, **expected}


def test_what_is_only_under_way_is_not_kept(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path)
    sink.write(Event("doing", 7, {"text": "evaluating"}))
    sink.close()
    assert read(tmp_path / "metrics.jsonl") == []


def test_half_a_line_is_passed_over_and_cut_off(tmp_path: Path) -> None:
    """A run killed while it wrote loses that line alone, and the next line starts on its own."""
    path = tmp_path / "metrics.jsonl"
    sink = JsonLines(tmp_path)
    sink.write(telling.progress(1, 1.0))
    sink.close()
    whole = path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole + whole[:cut])
        assert read(path) == [telling.progress(1, 1.0)]
        again = JsonLines(tmp_path)
        again.write(telling.progress(2, 2.0))
        again.close()
        assert [event.step for event in read(path)] == [1, 2]
        assert len(path.read_bytes().splitlines()) == 2


def test_a_line_that_lacks_only_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        sink = JsonLines(tmp_path)
        sink.write(telling.progress(step, 1.0))
        sink.close()
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert [event.step for event in read(path)] == [1, 2]


def test_history_forgets_what_a_resume_left_behind(tmp_path: Path) -> None:
    """What came after the checkpoint that a run was resumed from did not happen."""
    sink = JsonLines(tmp_path)
    for step in (10, 20, 30):
        sink.write(telling.progress(step, 1.0))
    sink.write(telling.start(step=20, resumed_from=20))
    sink.write(telling.progress(25, 2.0))
    sink.close()
    kept = [event.step for event in history(tmp_path / "metrics.jsonl") if event.kind == "progress"]
    assert kept == [10, 20, 25]


def test_a_record_that_went_out_in_part_is_an_error(tmp_path: Path) -> None:
    """A disk may take half of a line without complaint; that counts as full."""

    class Half:
        name = "metrics.jsonl"

        def write(self, record: bytes) -> int:
            return len(record) // 2

    with pytest.raises(OSError, match="No space left"):
        jsonl.append_record(Half(), b"12345678")  # type: ignore[arg-type]
