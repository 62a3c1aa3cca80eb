"""Columns beside the lines of metrics: the same numbers as in the lines, whatever happens to either file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.monitor import column_file
from rookery.monitor.column_file import COLUMNS, HEAD, ColumnFile, ColumnWriter, encoded_block
from rookery.monitor.events import Event
from rookery.monitor.jsonl import METRICS, JsonLines
from rookery.monitor.metric_chunk import MetricChunk, chunk_of, joined

OTHER = b'{"kind": "progress", "step": %d, "time": 1.0, "a": 1}\n'
NAMES = ("a", "b", "rare", "odd", "missing")


@pytest.fixture(autouse=True)
def blocks_of_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_file, "BLOCK", 1000)


def event(step: int) -> Event:
    values: dict[str, Any] = {"a": step / 3, "b": step, "odd": (None, "text", True, float("nan"), 10**30)[step % 5]}
    return Event("progress", step, values | ({"rare": -1.5} if step % 7 == 0 else {}), time=100.0 + step)


@contextmanager
def writing(folder: Path) -> Iterator[JsonLines]:
    lines = JsonLines(folder)
    yield lines
    lines.close()


def write(folder: Path, first: int, last: int) -> None:
    with writing(folder) as lines:
        lines.write(Event("start", first, {"resumed_from": first or None}, time=100.0 + first))
        for step in range(first, last):
            lines.write(event(step))


def opened(folder: Path) -> ColumnFile:
    with (folder / METRICS).open("rb") as metrics:
        return ColumnFile(folder / COLUMNS, metrics.fileno())


def found(folder: Path) -> tuple[MetricChunk, int]:
    """The columns with the lines after them, as a reader has them, and how many bytes of lines were decoded."""
    columns, text = opened(folder), (folder / METRICS).read_bytes()
    return joined([columns.load(NAMES), chunk_of(text[columns.last :]).named(NAMES)]), len(text) - columns.last


def check(folder: Path, most_decoded: int) -> None:
    """The same numbers as in the lines, of which few are decoded."""
    chunk, decoded = found(folder)
    expected = chunk_of((folder / METRICS).read_bytes())
    assert decoded <= most_decoded
    assert list(chunk.cuts) == list(expected.cuts)
    for name in ("steps", "times", "kinds"):
        np.testing.assert_array_equal(getattr(chunk, name), getattr(expected, name))
    assert set(chunk.metrics) == {"a", "b", "rare", "odd"}
    for name, metric in chunk.metrics.items():
        np.testing.assert_array_equal(metric.rows, expected.metrics[name].rows)
        np.testing.assert_array_equal(metric.values, expected.metrics[name].values)


def test_the_numbers_of_the_lines(tmp_path: Path) -> None:
    """In several blocks, with metrics that few events have; the number of values is known without reading them."""
    write(tmp_path, 0, 100)
    check(tmp_path, most_decoded=0)
    columns = opened(tmp_path)
    assert len(columns.blocks) > 5
    assert columns.counts == {"a": 100, "b": 100, "odd": 20, "rare": 15}


def test_a_killed_run_is_a_little_behind_and_makes_up_for_it(tmp_path: Path) -> None:
    """Also after several resumes, each of which replaces what was later than its checkpoint."""
    with writing(tmp_path / "run") as lines:
        for step in range(100):
            lines.write(event(step))
        tmp_path = shutil.copytree(tmp_path / "run", tmp_path / "killed")
    check(tmp_path, most_decoded=1100)
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'{"kind": "progress", "st')  # half a line, which the next start removes
    for first in (50, 80):
        write(tmp_path, first, 120)
        check(tmp_path, most_decoded=0)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def end_of_zeros(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-60] + bytes(60))


def rubbish_after(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"RKC1 and rubbish" * 10)


@pytest.mark.parametrize("damage", [cut_short, end_of_zeros, rubbish_after])
def test_a_torn_block_is_ignored_and_written_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    write(tmp_path, 0, 100)
    blocks = len(opened(tmp_path).blocks)
    damage(tmp_path / COLUMNS)
    assert len(opened(tmp_path).blocks) >= blocks - 1
    check(tmp_path, most_decoded=1100)
    write(tmp_path, 90, 120)
    check(tmp_path, most_decoded=0)


def test_lines_that_were_changed_cut_or_replaced(tmp_path: Path) -> None:
    """Columns up to the first change count; a resumed run writes those after it again."""
    write(tmp_path, 0, 100)
    metrics = tmp_path / METRICS
    text = metrics.read_bytes()
    lines = text.splitlines(keepends=True)
    changes = [
        b"".join(lines[:60]),
        b"".join([*lines[:50], lines[50].replace(b'"b": 49', b'"b": 7777'), *lines[51:]]),
        b"".join([*lines[:20], *lines[30:]]),
        b"".join(OTHER % step for step in range(9)),
        b"",
    ]  # fmt: skip
    for changed in changes:
        metrics.write_bytes(changed)
        chunk, _ = found(tmp_path)
        np.testing.assert_array_equal(chunk.steps, chunk_of(changed).steps)
        if b"7777" in changed:
            assert 7777 in chunk.metrics["b"].values
    metrics.write_bytes(changes[1])
    write(tmp_path, 90, 130)
    check(tmp_path, most_decoded=0)


def test_runs_from_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run makes up for few lines without columns, and leaves many to the dashboard."""
    write(tmp_path, 0, 100)
    (tmp_path / COLUMNS).unlink()
    check(tmp_path, most_decoded=1 << 20)
    write(tmp_path, 100, 110)
    check(tmp_path, most_decoded=0)
    (tmp_path / COLUMNS).unlink()
    monkeypatch.setattr(column_file, "MOST_BEHIND", 100)
    write(tmp_path, 110, 120)
    assert not opened(tmp_path).blocks


def test_a_run_goes_on_without_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If their disk is full, say."""
    with writing(tmp_path) as lines:
        for step in range(100):
            if step == 50:
                monkeypatch.setattr(ColumnWriter, "add", failing)
            lines.write(event(step))
    monkeypatch.undo()
    check(tmp_path, most_decoded=1 << 20)
    write(tmp_path, 100, 110)
    check(tmp_path, most_decoded=0)


def failing(*_: object) -> None:
    raise OSError("no space left")


def test_columns_that_anybody_may_have_written(tmp_path: Path) -> None:
    """Are refused, whatever they claim: a dashboard shows folders of others."""
    write(tmp_path, 0, 20)
    good = opened(tmp_path).load(NAMES)
    last, check = (tmp_path / METRICS).stat().st_size, opened(tmp_path).blocks[-1]
    for schema in (
        b"[]", b"{}", b'{"cuts": [], "rows": [2000000000], "metrics": {"a": 0}}', b"\xff", b"[" * 100_000,
        b'{"cuts": [[99, 1]], "rows": [], "metrics": {}}', b'{"cuts": [], "rows": [3], "metrics": {"a": -1}}',
        b'{"cuts": [], "rows": [], "metrics": {"a": 0}}', b'{"cuts": [], "rows": [true], "metrics": {}}',
    ):  # fmt: skip
        block = bytearray(encoded_block(good, 0, last, check.check))
        size = HEAD.unpack_from(block)[5]
        (tmp_path / COLUMNS).write_bytes(resealed(block[: HEAD.size], schema, bytes(block[HEAD.size + 4 + size :])))
        assert not opened(tmp_path).blocks
    (tmp_path / COLUMNS).unlink()
    (tmp_path / COLUMNS).symlink_to(tmp_path / METRICS)
    assert not opened(tmp_path).blocks


def resealed(head: bytearray, schema: bytes, arrays: bytes) -> bytes:
    values = list(HEAD.unpack(head))
    values[5], values[6], values[7] = len(schema), len(arrays), column_file.crc32(arrays)
    made = HEAD.pack(*values)
    return made + column_file.SEAL.pack(column_file.crc32(schema, column_file.crc32(made))) + schema + arrays


def test_rows_beyond_the_events_are_refused(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(b'{"kind": "progress", "step": 1, "time": 1.0, "a": 1}\n' * 3)
    chunk = chunk_of(
        b'{"kind": "progress", "step": 1, "time": 1.0, "a": 1}\n{"kind": "note", "step": 2, "time": 1.0}\n'
    )
    chunk.metrics["a"] = column_file.Metric(np.array([7], np.uint32), np.ones(1))
    with (tmp_path / METRICS).open("rb") as metrics:
        check = column_file.checksum(metrics.fileno(), 0, len(OTHER % 1))
    (tmp_path / COLUMNS).write_bytes(encoded_block(chunk, 0, len(OTHER % 1), check))
    with pytest.raises(ValueError, match="damaged"):
        opened(tmp_path).load(["a"])


def test_lines_without_events_are_covered_too(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(b"{}\n" * 50)
    with (tmp_path / METRICS).open("rb") as metrics:
        writer = ColumnWriter(tmp_path / COLUMNS, metrics.fileno())
        writer.add(b"{}\n" * 50, 150)
        writer.close()
    assert opened(tmp_path).last == 150 and not len(opened(tmp_path).load(["a"]))
