"""Alerts that are kept instead of sent."""

from __future__ import annotations

from typing import Any

from rookery.monitor.alerts import Alerts


class Recorder(Alerts):
    """Keeps alerts."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, str]] = []

    def send(self, kind: str, text: str, facts: Any = None) -> None:
        self.sent.append((kind, text))
