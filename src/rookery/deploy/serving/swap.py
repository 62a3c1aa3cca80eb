"""Follows the champion of a registry: a new one is loaded and warmed up in the background, then takes over."""

from __future__ import annotations

import threading
import time

from rookery.console import say
from rookery.deploy.serving.batching import Batcher
from rookery.deploy.serving.version_source import VersionSource
from rookery.monitor.alerts import Alerts

RETRY_SECONDS = 30.0  # until a version that did not load is tried again


class ChampionWatch:
    """Looks for another champion every `poll_seconds`, in a thread. If a new one cannot be served, the old one stays,
    and `problem` says why."""

    def __init__(
        self, source: VersionSource, batcher: Batcher, poll_seconds: float = 1.0, alerts: Alerts | None = None
    ) -> None:
        self._source, self._batcher, self._poll_seconds = source, batcher, poll_seconds
        self._alerts = alerts or Alerts.from_environment()
        self.problem = ""
        self.swaps = 0
        self._failed: tuple[int | str, float] | None = None  # a version, and when it may be tried again
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rookery champion", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """Load another champion if there is one, and let it take over."""
        wanted = None
        try:
            wanted = self._source.wanted()
            if wanted == self._batcher.agent.version:
                self._fine()
            elif self._failed is None or self._failed[0] != wanted or time.monotonic() > self._failed[1]:
                self._take(wanted)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the old agent goes on acting
            self._failed = None if wanted is None else (wanted, time.monotonic() + RETRY_SECONDS)
            self._complain(
                "the registry cannot be read" if wanted is None else f"version {wanted} cannot be used", error
            )

    def _take(self, version: int | str) -> None:
        agent, before = self._source.load(version), self._batcher.agent
        refused = agent.why_not_after(before)
        if refused:
            raise ValueError(refused)
        self._batcher.swap(agent)
        self.swaps += 1
        self._fine()
        say(f"version {version} serves now, instead of version {before.version}")

    def _fine(self) -> None:
        self.problem, self._failed = "", None

    def _complain(self, what: str, error: Exception) -> None:
        """Say it once, until something else is wrong."""
        serving = self._batcher.agent.version
        problem = f"{what}, and version {serving} stays: {error}"
        is_new, self.problem = problem != self.problem, problem
        if is_new:
            say(problem)
            self._alerts.send("champion-refused", problem, {"version": serving})

    def _watch(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            self.look()
