"""Compiled code with bounds checks, and an error that names the line.

Numba can check indices, but its error names neither the line nor the index. So the env arrays are copied before each
batch step. If the step fails, it is repeated from the copy in plain Python, whose error has a line.
"""

from __future__ import annotations

from typing import Any

from rookery.errors import WorldError
from rookery.kernel.batch_loop import RESET, STEP
from rookery.kernel.diagnosis import error_in_world
from rookery.kernel.plain import entry_point
from rookery.kernel.runner import MODE, STRICT, Runner


class CheckedRunner(Runner):
    """A runner with bounds checks. It is slower, and uses one thread."""

    checked = True

    def start_batch_step(self) -> None:
        super().start_batch_step()
        self._arrays_before = self.env_arrays.copy()

    def step_all(self) -> int:
        self.start_batch_step()
        return self.step(0, self.env_arrays.num_envs)

    def step(self, low: int, high: int, slot: int = 0) -> int:
        self._command = STEP
        return super().step(low, high, slot)

    def reset(self, envs: Any) -> int:
        self._command = RESET
        return super().reset(envs)

    def _world_error(self, fault: int) -> WorldError:
        """The error of the first env that raises in plain Python."""
        entry = entry_point(self.env_arrays.world)
        for number in range(self.env_arrays.num_envs):
            error = self._replay_error(entry, number)
            if error is not None:
                return error_in_world(self.env_arrays.world, error, f"env {number}: ")
        return WorldError(
            f"{self.env_arrays.world.name} used an index out of bounds in compiled code, but not in plain Python; look "
            "for code where the two differ: a number too large for its field, or `scratch` read before it is set"
        )

    def _replay_error(self, entry: Any, env: int) -> Exception | None:
        """What the last batch step of one env raises in plain Python."""
        env_arrays = self._arrays_before.view(env)
        plan = env_arrays.plan()
        plan[MODE], plan[STRICT] = self.mode, False
        try:
            entry(env_arrays, plan, self._command, 0, 1, 0)
        except Exception as error:  # noqa: BLE001 - anything that the world's author may have written
            return error
        return None
