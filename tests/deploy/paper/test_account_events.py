"""What is written beside a paper account for people who look at it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.deploy.paper.account_files import AccountEvents


def test_bars_and_alerts_are_appended(tmp_path: Path) -> None:
    AccountEvents(tmp_path).arrived(1_700_000_000)
    AccountEvents(tmp_path).alert("kill-switch", "too deep")
    bar, alert = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    assert (bar["kind"], bar["time"]) == ("bar", 1_700_000_000) and bar["at"] > bar["time"]
    assert (alert["kind"], alert["alert"], alert["text"]) == ("alert", "kill-switch", "too deep")


def test_what_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "events.jsonl").mkdir()
    events = AccountEvents(tmp_path)
    events.arrived(1)
    events.arrived(2)
    assert caplog.text.count("trading continues without it") == 1
