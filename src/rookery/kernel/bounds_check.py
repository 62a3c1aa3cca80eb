"""Compiled code that notices an index out of bounds, and names the line.

Numba can check indices, but says neither where nor which. So every round is preceded by a copy of the envs; if a round
is stopped, it is made again from the copy, in plain Python, whose error has a line.
"""

from __future__ import annotations

from typing import Any

from rookery.errors import WorldError
from rookery.kernel.batch_loop import BEGIN, STEP
from rookery.kernel.diagnosis import mistake_in
from rookery.kernel.plain import entry_point
from rookery.kernel.runner import MODE, STRICT, Runner


class CheckedRunner(Runner):
    """A runner with bounds checks: slower, and on one thread."""

    checked = True

    def tick(self) -> None:
        super().tick()
        self._before = self.arena.copy()

    def step_all(self) -> int:
        self.tick()
        return self.step(0, self.arena.num_envs)

    def step(self, low: int, high: int, slot: int = 0) -> int:
        self._what = STEP
        return super().step(low, high, slot)

    def begin(self, envs: Any) -> int:
        self._what = BEGIN
        return super().begin(envs)

    def _mistake(self, fault: int) -> WorldError:
        """The first env that raises in plain Python tells where."""
        entry = entry_point(self.arena.world)
        for number in range(self.arena.num_envs):
            error = self._replayed(entry, number)
            if error is not None:
                return mistake_in(self.arena.world, error, f"env {number}: ")
        return WorldError(
            f"{self.arena.world.name} used an index out of bounds in compiled code, though not in plain Python; look "
            "for what the two compute differently: a number too large for its field, or scratch that is read unset"
        )

    def _replayed(self, entry: Any, env: int) -> Exception | None:
        """What one env's part of the last round raises in plain Python."""
        arena = self._before.view(env)
        plan = arena.plan()
        plan[MODE], plan[STRICT] = self.mode, False
        try:
            entry(arena, plan, self._what, 0, 1, 0)
        except Exception as error:  # noqa: BLE001 - anything that the world's author may have written
            return error
        return None
