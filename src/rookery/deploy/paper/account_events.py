"""`events.jsonl` of a paper account: when the bars of a feed came, and alerts, by this machine's clock.

It is for people who look at the account. The account itself follows from its log alone, so that times of arrival are
not in there, and nothing of this file is ever read to trade.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rookery.console import say
from rookery.monitor.jsonl import append_record, open_append_only

NAME = "events.jsonl"


class AccountEvents:
    """The events of an account, which are appended. What cannot be written is reported once, and stops nothing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._has_failed = False

    def arrived(self, bar: int) -> None:
        """A bar of a feed was taken in, and its line is in the log."""
        self._append({"kind": "bar", "time": bar})

    def alert(self, alert: str, text: str) -> None:
        """An alert was sent, or would have been if there were somebody to send it to."""
        self._append({"kind": "alert", "alert": alert, "text": text})

    def _append(self, event: dict[str, Any]) -> None:
        try:
            with open_append_only(self.path) as file:
                append_record(file, json.dumps({**event, "at": round(time.time(), 3)}).encode() + b"\n")
        except OSError as error:
            if not self._has_failed:
                say(f"{self.path} cannot be written ({error.strerror or error}): trading goes on without it")
            self._has_failed = True
