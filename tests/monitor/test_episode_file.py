"""`episodes.jsonl`: its lines, which episodes are in it, and how it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.engine.segment_stepping import EPISODE
from rookery.monitor import episode_file
from rookery.monitor.episode_file import ALL_UP_TO, EpisodeFile, sampled


def finished(count: int, total: float = 21.5) -> np.ndarray:
    records = np.zeros(count, EPISODE)
    records["env"], records["return"], records["length"], records["seconds"] = np.arange(count), total, 21, 0.125
    return records


def lines(folder: Path) -> list[dict[str, Any]]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not strict JSON")

    text = (folder / "episodes.jsonl").read_text()
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_a_line_holds_what_is_known_of_an_episode(tmp_path: Path) -> None:
    file = EpisodeFile(tmp_path)
    file.add(1024, 7, finished(2), [{"winner": 1, "is_success": True, "why": "goal"}, {"return": 3, "x": float("nan")}])
    file.close()
    first, second = lines(tmp_path)
    assert isinstance(first.pop("time"), float) and second.pop("time") > 1e9
    own = {"step": 1024, "return": 21.5, "length": 21, "seconds": 0.125}
    assert first == {"episode": 7, "env": 0, **own, "winner": 1, "is_success": True, "why": "goal"}
    assert second == {"episode": 8, "env": 1, **own, "info_return": 3, "x": None}


@pytest.mark.parametrize("total", [float("nan"), float("inf"), float("-inf")])
def test_a_return_that_is_no_number_is_null(total: float, tmp_path: Path) -> None:
    file = EpisodeFile(tmp_path)
    file.add(1, 1, finished(1, total))
    file.close()
    assert lines(tmp_path)[0]["return"] is None


def test_a_line_is_bounded(tmp_path: Path) -> None:
    """Whatever a world puts into its infos."""
    file = EpisodeFile(tmp_path)
    file.add(1, 1, finished(1), [{f"{k:>0500}": "x" * 10_000 for k in range(1000)}])
    file.close()
    assert (tmp_path / "episodes.jsonl").stat().st_size < 1 << 13


def test_which_episodes_are_in_it_does_not_depend_on_how_they_come() -> None:
    """One by one, in batches or all at once: a rule of their numbers alone."""
    count = 5 * ALL_UP_TO
    at_once = (sampled(1, count) + 1).tolist()
    rng, first, parts = np.random.default_rng(0), 1, []
    while first <= count:
        size = min(int(rng.integers(1, 9000)), count - first + 1)
        parts += (sampled(first, size) + first).tolist()
        first += size
    assert parts == at_once
    assert at_once[:ALL_UP_TO] == list(range(1, ALL_UP_TO + 1))
    later = np.array(at_once[ALL_UP_TO:])
    for low, every in ((1, 2), (2, 4), (4, 8)):
        part = later[(later > low * ALL_UP_TO) & (later <= 2 * low * ALL_UP_TO)]
        assert set(np.diff(part).tolist()) == {every}


def test_a_billion_episodes_are_few_lines() -> None:
    """Half as many as the first ones for each doubling."""
    number = 10**9
    (at,) = sampled(number - number % 2**15, 1)  # the 15th doubling: every 32,768th
    assert at == 0 and len(sampled(number, 32_768)) == 1


def test_lines_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some time or size, not episode by episode; a flush writes what waits."""
    calls: list[int] = []
    monkeypatch.setattr(episode_file, "append_record", lambda file, record: calls.append(record.count(b"\n")))
    monkeypatch.setattr(episode_file, "BUFFER_SECONDS", 1e9)
    file = EpisodeFile(tmp_path)
    for k in range(1000):
        file.add(k, k + 1, finished(1))
    assert len(calls) == 1 and 500 < calls[0] < 1000
    file.flush()
    file.close()
    assert sum(calls) == 1000 and len(calls) == 2


def test_half_a_line_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    whole = b'{"episode": 1, "step": 8}\n'
    (tmp_path / "episodes.jsonl").write_bytes(whole + b'{"episode": 2, "st')
    EpisodeFile(tmp_path).close()
    assert (tmp_path / "episodes.jsonl").read_bytes() == whole
