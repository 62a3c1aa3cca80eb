"""The members of a population: each is a run with a folder, envs and a loop of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from rookery.config import RunConfig
from rookery.learners.algorithms.ppo import PPO
from rookery.training.resolve.resolved_run import ResolvedRun, resolve_run
from rookery.training.run.callbacks import Callback, Result
from rookery.training.run.components import make_learner
from rookery.training.run.loop import Loop
from rookery.training.run.open_run import OpenRun, open_new_run, open_recorded_run
from rookery.training.run.run_end import finish_run, rescue, write_failure
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.run_dir import RunDir

COMPILED = ("kernel", "cuda")  # backends of kernel worlds


@dataclass(frozen=True)
class MemberPlan:
    """A run to begin or, with a `folder`, to resume with some keys changed."""

    config: RunConfig
    folder: RunDir | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    callbacks: Sequence[Callback] | None = None  # None: those of its configuration


class Member:
    """A run among those that train side by side."""

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        self.loop: Loop = opened.loop
        self.folder, self.run = opened.folder, opened.run
        assert isinstance(opened.loop.learner, PPO)
        self.learner: PPO = opened.loop.learner
        opened.loop.components.evaluator.prepare()  # on the main thread: making envs may compile

    @property
    def device(self) -> str:
        """Where its updates are computed."""
        return self.run.config.device

    @property
    def is_compiled(self) -> bool:
        """Whether its steps are made by compiled code, which other threads need not wait for."""
        return self.loop.collector.is_fused

    def use_config(self, config: RunConfig) -> None:
        """Record another configuration, from which a resumed run continues."""
        self.run = replace(self.run, config=config)
        self.loop.config = self.loop.state.config = config
        self.folder.write_config(config.model_dump(mode="json"))

    def start(self) -> None:
        """Begin to make steps."""
        self.loop.start(self._opened.observations, self._opened.infos)

    def end(self, reason: str) -> Result:
        """The last evaluation and checkpoint, the summary and the result."""
        self.loop.finish(reason)
        return finish_run(self.run, self.folder, self.loop, reason)

    def fail(self, error: Exception) -> Exception:
        """Record why it ended; returns the error to report."""
        lost = rescue(self.folder, self.loop, error)
        if lost is None:
            write_failure(self.folder, self.loop, error)
        return lost or error


@contextmanager
def open_member(plan: MemberPlan, stop: StopRequest) -> Iterator[Member]:
    """A member that is about to make steps, at its beginning or at its latest checkpoint."""
    with _opened(plan, stop) as opened:
        yield Member(opened)


def _opened(plan: MemberPlan, stop: StopRequest) -> AbstractContextManager[OpenRun]:
    callbacks = None if plan.callbacks is None else list(plan.callbacks)
    if plan.folder is None:
        monitor = plan.config.monitor.model_copy(update={"verbose": False})  # many at a time would be unreadable
        changes = {"monitor": monitor, **_one_thread(plan.config), **compiled_for_cpu(plan.config)}
        config = plan.config.model_copy(update=changes)
        return open_new_run(config, stop, callbacks, make=_learner_on_cpu)
    runs_dir = Path(plan.config.runs_dir)
    changes = {
        **plan.changes,
        **_one_thread(plan.config),
        "monitor": {**plan.changes.get("monitor", {}), "verbose": False},
    }
    return open_recorded_run(plan.folder, runs_dir, stop, changes, callbacks, trust=True, make=_learner_on_cpu)


def _one_thread(config: RunConfig) -> dict[str, Any]:
    """Compiled envs of a member are stepped on one thread: others step those of other members in the meantime."""
    return {"workers": 1} if resolve_run(config).config.backend in COMPILED else {}


def compiled_for_cpu(config: RunConfig) -> dict[str, Any]:
    """Compiled envs of a member are on the CPU, where it acts, also if it is updated on a GPU."""
    return {"backend": "kernel"} if resolve_run(config).config.backend in COMPILED else {}


def _learner_on_cpu(run: ResolvedRun) -> PPO:
    """A member acts on the CPU, wherever it is updated. Its random numbers are those of the device, as if it was
    alone."""
    device = run.config.device
    learner: PPO = make_learner(run.with_config(device="cpu"))  # type: ignore[assignment]
    if device != "cpu":
        learner.generator = torch.Generator(device).manual_seed(run.config.seed)
    return learner
