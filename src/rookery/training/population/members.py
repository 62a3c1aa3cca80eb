"""The members of a population: each is a run with a folder, envs and a loop of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rookery.atomics import call_entry
from rookery.config import RunConfig
from rookery.engine.kernel import KernelEngine
from rookery.kernel.batch_loop import STEP
from rookery.kernel.env_loop import ENDED, FAULT
from rookery.kernel.runner import BATCH_STEP
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.cached_njit import cached_njit
from rookery.learners.frozen_policy import PackedPolicy
from rookery.learners.heads import CategoricalHead
from rookery.learners.kernels.cpu.perceptron import forward
from rookery.training.evaluation.episodes import EpisodeEnvs, Episodes
from rookery.training.evaluation.evaluator import Evaluator
from rookery.training.players.agents import AgentPlayer
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
        use_compiled_episodes(opened.loop.components.evaluator)
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


STEPS_AT_ONCE = 1_000  # after which a request to stop is seen


@cached_njit(nogil=True, error_model="numpy")
def _play(
    entry: int, plan: np.ndarray, plan_address: int, world: Any, net: Any, rows: np.ndarray, start: int, most: int
) -> tuple[int, int]:
    """Step the envs in `rows` until an episode ends; returns how many steps were made, and what came of the last."""
    observations, actions = world
    sizes, packed, kind, outputs = net
    envs, outcome = len(observations), 0
    for turn in range(most):
        forward(observations, sizes, packed, kind, outputs)
        for i in rows:
            best = 0
            for k in range(1, outputs.shape[1]):
                if outputs[i, k] > outputs[i, best]:
                    best = k
            actions[i] = best + start
        plan[BATCH_STEP] += 1
        if len(rows) == envs:
            outcome = call_entry(entry, plan_address, STEP, 0, envs, 0)
        else:
            outcome = 0
            for i in rows:
                outcome |= call_entry(entry, plan_address, STEP, i, i + 1, 0)
        if outcome & (FAULT | ENDED):
            return turn + 1, outcome
    return most, outcome


class FusedEpisodes(Episodes):
    """Numbered episodes, played side by side by compiled code."""

    def _advance(self) -> tuple[np.ndarray, dict[str, Any]]:
        engine, packed = self._envs.engine, self._player.packed
        assert isinstance(engine, KernelEngine) and packed is not None
        observations, actions, *_ = engine.plain_arrays()
        outputs = np.empty((len(observations), packed.net.sizes[-1]), np.float32)
        net = packed.net.sizes, packed.net.packed, packed.net.kind, outputs
        start = int(self._player.action_space.start)  # type: ignore[attr-defined]
        _play(*engine.compiled_step(), (observations, actions), net, self._rows, start, STEPS_AT_ONCE)
        self._observations, _, terminated, truncated, infos = engine.finish_rows(self._rows)
        return terminated | truncated, infos


def use_compiled_episodes(evaluator: Evaluator) -> None:
    """Let an evaluator play its episodes by compiled code where that is possible."""
    evaluator.episodes_of = _episodes_for


def _episodes_for(envs: EpisodeEnvs, player: AgentPlayer) -> type[Episodes]:
    engine = envs.engine
    plain = isinstance(engine, KernelEngine) and envs.agents == 1 and engine.has_plain_steps
    packed: PackedPolicy | None = player.packed
    chooses = player.deterministic and isinstance(getattr(player.policy, "head", None), CategoricalHead)
    return FusedEpisodes if plain and chooses and packed is not None and not packed.normalises else Episodes
