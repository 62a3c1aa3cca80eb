"""The log of an account: what is written stays, and what is damaged is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.deploy.paper.account_files import AccountLog, read_log
from rookery.errors import FileError


def written(path: Path, count: int = 3) -> Path:
    log = AccountLog(path)
    for number in range(count):
        log.append({"kind": "bar", "value": number / 7})
    log.close()
    return path


def test_lines_come_back(tmp_path: Path) -> None:
    """In order, numbered, with exact numbers."""
    lines = read_log(written(tmp_path / "log.jsonl"))
    assert [(line["seq"], line["value"]) for line in lines] == [(0, 0.0), (1, 1 / 7), (2, 2 / 7)]
    assert all(json.loads(text) for text in (tmp_path / "log.jsonl").read_text().splitlines())


@pytest.mark.parametrize("kept", [1, 20, 60])
def test_unfinished_line_never_counted(tmp_path: Path, kept: int) -> None:
    """Whatever a killed process has left of it; the next line is as if it had not been begun."""
    path, other = written(tmp_path / "log.jsonl"), written(tmp_path / "other.jsonl", 4)
    whole = other.read_bytes()
    path.write_bytes(path.read_bytes() + whole.splitlines()[3][:kept])
    assert len(read_log(path)) == 3
    log = AccountLog(path)
    log.append({"kind": "bar", "value": 3 / 7})
    log.close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("change", ["digit", "removed", "swapped", "zeros"])
def test_changed_lines_are_refused(tmp_path: Path, change: str) -> None:
    path = written(tmp_path / "log.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    if change == "digit":
        lines[1] = lines[1].replace(b"0.14", b"0.15")
    elif change == "removed":
        del lines[1]
    elif change == "swapped":
        lines[1], lines[2] = lines[2], lines[1]
    else:
        lines[1] = b"\0" * 40 + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(FileError, match=r"line 2 is damaged or was changed.*--account"):
        AccountLog(path)
