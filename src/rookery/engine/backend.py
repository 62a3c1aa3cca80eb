"""What a backend provides: workers that build envs, step them and answer calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from rookery.engine.async_calls import AsyncCalls
from rookery.engine.batch import Batch, BatchSpec
from rookery.engine.segments import Segment
from rookery.engine.step_report import StepReport
from rookery.engine.worker_envs import EnvDescription


class Backend(AsyncCalls):
    """The interface between the engine, which is the same on all backends, and a backend."""

    backend = ""
    batch: Batch

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many workers there are now."""

    @abstractmethod
    def _build_first_env(self, rows: list[int]) -> EnvDescription:
        """Build the first env of the first worker and describe it."""

    @abstractmethod
    def _start_workers(self, spec: BatchSpec, description: EnvDescription) -> None:
        """Set `self.batch` and build all the other envs."""

    @abstractmethod
    def _start_step(self, segments: Sequence[Segment]) -> None:
        """Start stepping these segments."""

    @abstractmethod
    def _wait(self, segments: Sequence[Segment], need: int, timeout: float | None = None) -> None:
        """Block until at least `need` envs in these segments have been stepped; CallTimeout after `timeout` seconds."""

    @abstractmethod
    def _read_report(self, segment: Segment) -> StepReport:
        """The report of a finished segment that has one."""

    @abstractmethod
    def _call_workers(self, calls: dict[int, tuple[str, tuple]], raw: bool = False) -> dict[int, Any]:
        """Call a method of `WorkerEnvs`, given with its arguments, in each worker named, in parallel. Raises what the
        first env to fail raised or, if `raw`, the Failed that carries it."""

    @abstractmethod
    def _notify_workers(self, method: str, args: tuple) -> None:
        """Call a method of `WorkerEnvs` in every worker before its next step, without waiting."""

    def _check_workers(self) -> None:
        """Find out now which workers have died, while they can be replaced."""

    @abstractmethod
    def _resize_workers(self, spec: BatchSpec) -> None:
        """Move to a batch of `self.num_envs` and the new `self.segments`."""

    @abstractmethod
    def _usage(self) -> list[dict[str, Any]]:
        """Per worker: pid, CPU seconds used so far, bytes of memory."""

    def _release(self) -> None:
        """Return to the system what an engine that has failed no longer needs."""
