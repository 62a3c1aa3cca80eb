"""Restarts: which failures allow one, how many are allowed, and what seed a restarted env gets."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from typing import Any

from rookery.engine import seeding
from rookery.engine.settings import Settings
from rookery.errors import BadValue, RestartLimit, SpaceError, UsageError


class Restarts:
    """Counts the restarts of each env and worker, and allows at most `max_restarts` within `restart_window` seconds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.root_seed = seeding.fresh_entropy()
        self.total = 0
        self._per_env: dict[int, int] = {}  # how many seeds of its own an env has used up
        self._times: dict[tuple[str, int], deque[float]] = defaultdict(deque)
        self._first: dict[tuple[str, int], str] = {}

    def allowed_after(self, error: BaseException | None) -> bool:
        """Whether an env that raised this is restarted; otherwise its exception is raised."""
        settings = self._settings
        if isinstance(error, UsageError):
            return False
        return bool(getattr(settings, self.option_for(error)) == "restart")

    def option_for(self, error: BaseException | None) -> str:
        """The option that decides what follows this error."""
        is_value = isinstance(error, (BadValue, SpaceError)) and self._settings.bad_values != "allow"
        return "bad_values" if is_value else "on_failure"

    def count(self, kind: str, number: int, cause: str) -> None:
        """Count one restart of env or worker (`kind`) `number`; RestartLimit, with the first cause, if it is one too
        many."""
        key, now = (kind, number), time.monotonic()
        limit, window, times = self._settings.max_restarts, self._settings.restart_window, self._times[(kind, number)]
        while times and now - times[0] > window:
            times.popleft()
        if not times:
            self._first[key] = cause
        if len(times) >= limit:
            first = self._first[key]
            last = "" if cause == first else f"\nThe last one:\n{cause}"
            raise RestartLimit(
                f"{kind} {number} failed again after {len(times)} restarts within {window:g} s "
                f"(max_restarts={limit}). The first failure:\n{first}{last}"
            )
        times.append(now)
        self.total += 1

    def reseed(self, seed: Any) -> None:
        """Derive the seeds of later restarts from what `reset(seed=...)` was given, if it names one root."""
        root = seeding.root_of(seed)
        self.root_seed = self.root_seed if root is None else root

    def next_seed(self, row: int) -> int:
        """A seed for a restarted env: not that of the episode that failed, and derived from the root seed alone."""
        self._per_env[row] = self._per_env.get(row, 0) + 1
        return seeding.child_seed(self.root_seed, row, self._per_env[row])

    def state_dict(self) -> dict[str, Any]:
        return {
            "root_seed": self.root_seed,
            "restarts": {str(row): count for row, count in self._per_env.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.root_seed = state["root_seed"]
        self._per_env = {int(row): count for row, count in state["restarts"].items()}
