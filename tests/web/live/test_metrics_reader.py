"""What a file of metrics has grown by, whatever happened to it in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.web.live import metrics_reader
from rookery.web.live.metrics_reader import Position, end_of, read_chunk
from web.live.grown_runs import GrowingRun, Message, line, messages, steps


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path)
    run.start()
    run.progress(10, 20, 30)
    return run


def read(run: GrowingRun, position: Position) -> tuple[list[Message], Position]:
    """All that is to be read now."""
    found, more = [], True
    while more:
        chunk = read_chunk(run.dir.metrics, position)
        found += messages(chunk.frames)
        position, more = chunk.position, chunk.more
    return found, position


def resets(found: list[Message]) -> list[int]:
    return [message.data["step"] for message in found if message.kind == "reset"]


def test_each_line_is_one_event_with_the_offset_after_it(run: GrowingRun) -> None:
    found, end = read(run, Position(0))
    assert steps(found) == [0, 10, 20, 30]
    contents = run.dir.metrics.read_bytes()
    offsets = [Position.parse(message.id or "").offset for message in found]
    assert offsets == [at + 1 for at, sign in enumerate(contents) if sign == 10]
    assert end == end_of(run.dir.metrics) == Position.parse(found[-1].id or "")


def test_from_any_id_on_the_rest_follows(run: GrowingRun) -> None:
    everything, _ = read(run, Position(0))
    for number, message in enumerate(everything):
        assert read(run, Position.parse(message.id or ""))[0] == everything[number + 1 :]
        assert read(run, Position(Position.parse(message.id or "").offset))[0] == everything[number + 1 :]


def test_an_incomplete_line_waits(run: GrowingRun) -> None:
    _, end = read(run, Position(0))
    whole = line("progress", 40, text="é" * 10)
    for cut in (1, 9, len(whole) - 6, len(whole) - 1):
        run.append(whole[:cut])
        assert read(run, end) == ([], end) and end_of(run.dir.metrics) == end
        run.append(whole[cut:])
        found, end = read(run, end)
        assert steps(found) == [40]


def test_small_chunks_are_the_same(run: GrowingRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run.progress(*range(40, 400, 10))
    whole = read(run, Position(0))
    monkeypatch.setattr(metrics_reader, "CHUNK_BYTES", 150)
    assert read(run, Position(0)) == whole


@pytest.mark.parametrize("size", [1 << 16, 1 << 20, (4 << 20) - 200])
def test_long_lines_come_whole(run: GrowingRun, size: int) -> None:
    run.write("note", 40, text="x" * size)
    run.progress(50)
    found, _ = read(run, Position(0))
    assert steps(found) == [0, 10, 20, 30, 40, 50] and len(found[4].data["text"]) == size


def test_a_line_without_end_is_passed_over(run: GrowingRun) -> None:
    run.append(b'{"kind": "note", "step": 1, "text": "' + b"x" * (9 << 20))
    assert steps(read(run, Position(0))[0]) == [0, 10, 20, 30]
    run.append(b'"}\n')
    run.progress(50)
    assert steps(read(run, Position(0))[0]) == [0, 10, 20, 30, 50]


@pytest.mark.parametrize(
    "damaged",
    [b"\n", b"nothing\n", b"[1]\n", b"7\n", b'{"kind": 1, "step": 2}\n', b'{"kind": "note"}\n', b"\xff\xfe\n",
     b'{"kind": "note", "step": 2, "a": ' + b"[" * 5000 + b"\n",
     b'{"kind": "note", "step": NaN}\n', b"\0" * 50 + b"\n"],
)  # fmt: skip
def test_damaged_lines_are_left_out(run: GrowingRun, damaged: bytes) -> None:
    run.append(damaged)
    run.progress(50)
    assert steps(read(run, Position(0))[0]) == [0, 10, 20, 30, 50]


def test_lines_of_other_programs(run: GrowingRun) -> None:
    """Windows ends of lines, NaN, and letters that would end a message of the stream."""
    run.append(
        b'{"kind":"progress",\r"step":40,"loss/value":NaN}\r\n{"kind":"note","step":50,"text":"a\\nevent: x"}\r\n'
    )
    found, _ = read(run, Position(0))
    assert steps(found) == [0, 10, 20, 30, 40, 50]
    assert found[4].data["loss/value"] is None and found[5].data["text"] == "a\nevent: x"


def test_a_resumed_run_is_a_reset_to_its_step(run: GrowingRun) -> None:
    _, end = read(run, Position(0))
    run.resume(20)
    run.progress(25)
    found, end = read(run, end)
    assert resets(found) == [20] and steps(found) == [20, 25]
    run.resume(25)  # nothing was lost this time
    found, _ = read(run, end)
    assert resets(found) == [25] and steps(found) == [25]


def test_a_resumed_run_that_is_longer_again(run: GrowingRun) -> None:
    """The old offset is within the new file, but of another line."""
    _, end = read(run, Position(0))
    run.resume(10)
    run.progress(*range(11, 40))
    found, _ = read(run, end)
    assert resets(found) == [10] and steps(found) == [10, *range(11, 40)]


def test_a_run_that_was_resumed_twice_in_between(run: GrowingRun) -> None:
    _, end = read(run, Position(0))
    run.resume(20)
    run.progress(21, 22)
    run.resume(10)
    run.progress(11, 12, 13)
    found, _ = read(run, end)
    assert resets(found) == [10] and steps(found) == [10, 11, 12, 13]


def test_a_file_that_is_cut_before_the_new_start_is_written(run: GrowingRun) -> None:
    _, end = read(run, Position(0))
    run.dir.truncate_after(20)
    found, end = read(run, end)
    assert resets(found) == [20] and not steps(found)
    run.start(resumed_from=20)
    found, _ = read(run, end)
    assert resets(found) == [20] and steps(found) == [20]


def test_another_run_of_the_same_name(run: GrowingRun) -> None:
    _, end = read(run, Position(0))
    run.dir.metrics.write_bytes(line("start", 0, world="other") + b"".join(line("progress", n) for n in range(90)))
    found, _ = read(run, end)
    assert resets(found) == [metrics_reader.EVERYTHING] and steps(found) == [0, *range(90)]


def test_a_file_that_is_emptied_or_gone(run: GrowingRun) -> None:
    _, end = read(run, Position(0))
    contents = run.dir.metrics.read_bytes()
    run.dir.metrics.unlink()
    assert read(run, end) == ([], end)
    run.dir.metrics.write_bytes(contents)  # it was moved, and is back
    run.append(line("progress", 40))
    assert steps(read(run, end)[0]) == [40]
    run.dir.metrics.write_bytes(b"")
    found, end = read(run, end)
    assert resets(found) == [metrics_reader.EVERYTHING] and end == Position(0)


def test_a_link_is_not_followed(run: GrowingRun, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(line("note", 1, text="secret"))
    run.dir.metrics.unlink()
    run.dir.metrics.symlink_to(tmp_path / "secret")
    assert read(run, Position(0)) == ([], Position(0))


@pytest.mark.parametrize("text", ["x", "-1", "1-2", "1e3", "12-xyz", "9" * 30, "0-0000000000000000\n"])
def test_other_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of an event"):
        Position.parse(text)
