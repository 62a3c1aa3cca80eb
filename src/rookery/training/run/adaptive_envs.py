"""`num_envs = "adaptive"`: the number of envs follows the measured throughput.

It doubles while that is faster, and returns to the best number when it is not; after a while it tries again. Each
change is recorded with its step, and a resumed run makes the same changes at the same steps before it measures anew.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from rookery.files import open_to_append, read_plain

WINDOW = 2.0  # seconds over which a rate is measured, after as long to settle
MIN_GAIN = 1.05  # more envs must be this much faster
RETRY_AFTER = 30  # windows
MAX_LOG_BYTES = 16 << 20


class AdaptiveNumEnvs:
    """Decides how many envs there should be."""

    def __init__(self, most: int, log: Path | None = None, after: int = -1) -> None:
        self.most, self.log, self.reason = most, log, ""
        self._recorded = [entry for entry in _read(log) if entry[0] > after and 1 <= entry[1] <= most]
        self._rates: dict[int, float] = {}
        self._windows_to_wait = 0
        self._mark: tuple[float, int] | None = None
        self._settled = False

    def wanted(self, steps: int, num_envs: int) -> int:
        """How many envs to have from here on."""
        if self._recorded:
            return self._next_recorded(steps, num_envs)
        now = time.perf_counter()
        if self._mark is None:
            self._mark = now, steps
        elif now - self._mark[0] >= WINDOW:
            rate = (steps - self._mark[1]) / (now - self._mark[0])
            self._mark = now, steps
            if not self._settled:  # the first window after a change holds the change itself
                self._settled = True
                return num_envs
            return self._change(steps, num_envs, self._next(num_envs, rate))
        return num_envs

    def _next_recorded(self, steps: int, num_envs: int) -> int:
        step, envs = self._recorded[0]
        if steps < step:
            return num_envs
        self._recorded.pop(0)
        self.reason = "as this run did before"
        return envs

    def _next(self, num_envs: int, rate: float) -> int:
        self._rates[num_envs] = rate
        best = max(self._rates, key=lambda n: self._rates[n])
        larger = min(2 * num_envs, self.most)
        fewer = [n for n in self._rates if n < num_envs]
        if fewer and rate < MIN_GAIN * max(self._rates[n] for n in fewer):
            best = max(fewer, key=lambda n: self._rates[n])
            self.reason = f"{num_envs} envs make {rate:,.0f} steps/s, {best} made {self._rates[best]:,.0f}"
            self._windows_to_wait = RETRY_AFTER
            return best
        if self._windows_to_wait:
            self._windows_to_wait -= 1
            if not self._windows_to_wait:
                self._rates = {num_envs: rate}
            return num_envs
        self.reason = f"{num_envs} envs make {rate:,.0f} steps/s; trying more"
        return larger

    def _change(self, steps: int, num_envs: int, wanted: int) -> int:
        if wanted != num_envs:
            self._settled = False
            if self.log is not None:
                with os.fdopen(open_to_append(self.log), "a") as file:
                    file.write(json.dumps([steps, wanted]) + "\n")
        return wanted


def _read(log: Path | None) -> list[tuple[int, int]]:
    """Recorded changes; an incomplete last line is ignored."""
    entries: list[tuple[int, int]] = []
    for line in read_plain(log, MAX_LOG_BYTES).splitlines() if log is not None and log.exists() else []:
        try:
            step, envs = json.loads(line)
            entries.append((int(step), int(envs)))
        except (ValueError, TypeError, OverflowError, RecursionError):
            break
    return entries
