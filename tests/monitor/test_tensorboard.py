"""Our event files, read back by TensorBoard itself."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from monitor import telling
from rookery.monitor.events import Event
from rookery.monitor.trackers import TensorBoard, framed


def accumulated(folder: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    loaded = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    loaded.Reload()
    return loaded


def written(folder: Path, events: list[Event]) -> None:
    sink = TensorBoard(folder)
    for event in events:
        sink.write(event)
    sink.close()


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_our_scalars(tmp_path: Path) -> None:
    """Tags are our own names; steps, wall times and values are those of the events."""
    written(tmp_path, telling.whole_run())
    loaded = accumulated(tmp_path)
    numbers = {name for name, value in telling.EVALUATION.items() if not isinstance(value, bool)}
    assert set(loaded.Tags()["scalars"]) == set(telling.PROGRESS) | numbers
    points = loaded.Scalars("episode/return")
    assert [point.step for point in points] == [2000 * i for i in range(1, 51)]
    assert [point.value for point in points] == [10.0 * i for i in range(1, 51)]
    assert [point.wall_time for point in points] == [1000.0 + i for i in range(1, 51)]
    assert loaded.Scalars("loss/policy")[0].value == struct.unpack("f", struct.pack("f", -0.0123))[0]


@pytest.mark.filterwarnings("ignore")
def test_notes_are_texts(tmp_path: Path) -> None:
    """Notes go to the text plugin, under one tag."""
    written(tmp_path, [telling.start(), telling.note("zwölf envs", step=300)])
    loaded = accumulated(tmp_path)
    (point,) = loaded.Tensors("notes")
    assert point.step == 300 and point.tensor_proto.string_val == ["zwölf envs".encode()]
    assert loaded.SummaryMetadata("notes").plugin_data.plugin_name == "text"


@pytest.mark.filterwarnings("ignore")
def test_a_resumed_run_replaces_what_it_left_behind(tmp_path: Path) -> None:
    """TensorBoard forgets the steps after the checkpoint that a run was resumed from."""
    written(tmp_path, [telling.start(), *(telling.progress(step, 1000.0) for step in (10, 20, 30))])
    resumed = Event("start", 20, {**telling.START, "resumed_from": 20}, time=2000.0)
    written(tmp_path, [resumed, telling.progress(25, 2001.0)])
    assert len(list(tmp_path.iterdir())) == 2
    assert [point.step for point in accumulated(tmp_path).Scalars("episodes")] == [10, 20, 25]


@pytest.mark.filterwarnings("ignore")
def test_values_no_float_can_hold_are_written_as_such(tmp_path: Path) -> None:
    """A loss that exploded is shown as infinite; it does not stop the writer."""
    exploded = {"a": 1e300, "b": -1e300, "c": math.nan}
    written(tmp_path, [Event("progress", 2**40, exploded)])
    loaded = accumulated(tmp_path)
    assert [loaded.Scalars(tag)[0].value for tag in "ab"] == [math.inf, -math.inf]
    assert math.isnan(loaded.Scalars("c")[0].value) and loaded.Scalars("c")[0].step == 2**40


def test_files_are_named_as_tensorboard_expects(tmp_path: Path) -> None:
    written(tmp_path / "tb", [telling.start()])
    (file,) = (tmp_path / "tb").iterdir()
    assert file.name.startswith("events.out.tfevents.0000001000.") and file.name.endswith(f".{os.getpid()}")


def test_a_record_carries_masked_checksums() -> None:
    """Length, its checksum, data, their checksum: the frame of a TFRecord, as TensorFlow writes it for b''."""
    assert framed(b"").hex() == "0000000000000000" + "29039807" + "d8ea82a2"
