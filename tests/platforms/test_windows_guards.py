"""What Windows lacks in the dashboard and in a Game Boy's guide: done in another way, or refused with what works."""

from __future__ import annotations

import os
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.files import pread
from rookery.web.live.metrics_reader import Position, end_of, read_chunk
from rookery.web.play.play_routes import PlayProcess, SessionEnded
from rookery.worlds.gameboy.guide_client import MOST_FAILURES, GuideClient
from rookery.worlds.gameboy.guide_settings import GuideSettings

LINES = b"".join(b'{"kind": "update", "step": %d}\n' % step for step in range(2_000))


def test_the_dashboard_reads_without_pread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of metrics as it grows, with the same events and positions."""
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(LINES)
    expected = read_chunk(file, Position(0)), end_of(file)
    monkeypatch.delattr("os.pread")
    assert (read_chunk(file, Position(0)), end_of(file)) == expected
    assert expected[0].frames.count(b"update") > 1


def test_threads_share_a_file_without_pread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place in the file is one for all of them."""
    file = tmp_path / "bytes"
    file.write_bytes(LINES)
    monkeypatch.delattr("os.pread")
    fd = os.open(file, os.O_RDONLY)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(partial(pread, fd, 64), range(0, len(LINES), 64)))
    os.close(fd)
    assert b"".join(found) == LINES


def test_a_session_in_a_page_is_refused_with_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started."""
    request: Any = object()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SessionEnded, match="need Linux or macOS; `rookery watch RUN`"):
        PlayProcess(request)


def test_training_goes_on_without_a_guide(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked once, which starts nothing and says why."""
    guide = GuideClient(GuideSettings(guide="my_guide.py:Guide"), {})
    guide.users = 1
    monkeypatch.setattr(sys, "platform", "win32")
    assert guide._exchange({}, b"") == {"error": "a guide needs Linux or macOS"}
    assert guide.process is None and guide._failures > MOST_FAILURES
    assert "is not asked any more: a guide needs Linux or macOS; training continues without it" in caplog.text
    monkeypatch.undo()
    assert not guide.ask(deque(), 0, {}, np.zeros(1))
