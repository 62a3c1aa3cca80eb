"""Follows the champion of a registry: a new one is loaded and warmed up in the background, then takes over."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rookery.console import say
from rookery.deploy.registry import Registry
from rookery.deploy.serving.served_agent import Batcher, ServedAgent
from rookery.monitor.alerts import Alerts
from rookery.training.storage.load_agent import check_device, load, load_agent
from rookery.training.storage.registry_folder import MARKER, registry_name

RETRY_SECONDS = 30.0  # until a version that did not load is retried


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
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the old agent keeps acting
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


@dataclass(frozen=True)
class VersionSource:
    """Says which version should be served, and loads it: the champion of a registry; or the agent of a run, a saved
    agent, or one version of a registry, which do not change while they are served."""

    name: str
    runs_dir: Path
    registry: Registry | None  # whose champion is served
    best: bool = True
    device: str = "cpu"
    trust: bool = False

    def wanted(self) -> int | str:
        """The version that should be served now. It is requested every second, so that it must be quick."""
        if self.registry is None:
            return self.name
        number = self.registry.champion_number()
        return self.registry.version("champion").number if number is None else number  # which says why there is none

    def load(self, version: int | str) -> ServedAgent:
        """That version, ready to act."""
        if self.registry is None:
            agent = load(self.name, self.runs_dir, best=self.best, device=self.device, trust=self.trust)
        else:
            agent = load_agent(self.registry.version(version).run, device=self.device, trust=self.trust)
        served = ServedAgent(agent, version)
        served.warm_up()
        return served


def find_source(
    what: str | Path, runs_dir: str | Path = "runs", *, best: bool = True, device: str = "cpu", trust: bool = False
) -> VersionSource:
    """The source of a name: the folder of a registry, `registry:DIR`, a run, or the folder of a saved agent."""
    check_device(device)
    named, folder = registry_name(what), None
    if named is not None and named.which == "champion":
        folder = named.folder
    elif named is None and (Path(what) / MARKER).is_file():
        folder = Path(what)
    registry = None if folder is None else Registry(folder)
    return VersionSource(str(what), Path(runs_dir), registry, best, device, trust)
