"""A part of a run played again: opened from a checkpoint in a scratch folder, as a resumed run is, and trained up to a
moment."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rookery.config import build_config
from rookery.console import silent
from rookery.errors import OptionError, RunError
from rookery.monitor.jsonl import history, plain
from rookery.training.rewind.scratch import make_scratch, quiet
from rookery.training.run.callbacks import Callback
from rookery.training.run.loop import Loop
from rookery.training.run.open_run import OpenRun, open_recorded_run
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.checkpoint import Checkpoints, agent_digest
from rookery.training.storage.moments import Moment
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_history import (
    RunSegment,
    base_before,
    machine_text,
    package_versions,
    segments,
)
from rookery.training.storage.trust import check_run


# Whether a part of a run that is played again is the same, bit for bit: it is compared with what the run recorded.
class Evidence:
    """The lines of progress and the hashes of agents in a run's metrics, by their step."""

    def __init__(self, run: RunDir) -> None:
        events = history(run.metrics) if run.metrics.is_file() else []
        self._rows = {event.step: event.values for event in events if event.kind == "progress"}
        self._agents = {event.step: event.values.get("agent") for event in events if event.kind == "checkpoint"}
        self.compared = 0  # steps
        self.difference = ""  # the first one

    def check(self, loop: Loop) -> None:
        """Compare the present moment, after an update and before anything that is due."""
        row, agent = self._rows.get(loop.steps), self._agents.get(loop.steps)
        if (row is None and agent is None) or self.difference:
            return
        self.compared += 1
        for name, then, now in self._different(loop, row or {}):
            self.difference = f"at step {loop.steps:,}, {name} is {now!r:.24} and was {then!r:.24}"
            return
        if agent is not None and agent != agent_digest(loop.state.agent_tree()):
            self.difference = f"at step {loop.steps:,}, the agent has other weights"

    @staticmethod
    def _different(loop: Loop, row: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """Figures that depend on nothing but the seed. An off-policy learner's losses are means since the run was
        opened, and envs on a GPU are counted when somebody looks."""
        figures: dict[str, Any] = {"updates": loop.learner.updates, "learning_rate": loop.learner.learning_rate}
        if loop.learner.on_policy:
            figures |= {f"loss/{name}": value for name, value in loop.collector.metrics.items()}
        if not loop.collector.is_asynchronous:
            figures |= loop.episodes.metrics()
        for name, value in figures.items():
            if name in row and row[name] != plain(value):
                yield name, row[name], plain(value)


class Replay:
    """A run that is open in a scratch folder. It writes no checkpoints, and ends when it is closed."""

    def __init__(
        self,
        run: RunDir,
        before: int,
        runs_dir: Path,
        trust: bool = False,
        world: Any = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        """Open it at its last checkpoint at or before the step `before`, or at its beginning."""
        self.run, self.evidence = run, Evidence(run)
        self._given = {"runs_dir": runs_dir, "callbacks": callbacks, "trust": True, "world": world}
        config = build_config(run.read_config())
        if config.cluster.kind != "local":
            raise RunError(f"{run.name} was trained on a cluster, and only runs of one machine can be played again")
        check_run(run, config, trust)
        base = base_before(run, before)
        self.began_at = 0 if base is None else base.step
        self._segments = segments(run) or [RunSegment(0, run.read_config(), {}, "")]
        self._refuse_trunk()
        self._segment = max(k for k, one in enumerate(self._segments) if one.step <= self.began_at)
        self._stack = ExitStack()
        try:
            self.scratch = make_scratch(run, self._segments[self._segment].config, base)
            self._stack.callback(shutil.rmtree, self.scratch.path.parent, ignore_errors=True)
            self._open()
        except BaseException:
            self.close()
            raise

    def _refuse_trunk(self) -> None:
        """A fork has no part of its own before the moment at which it left its parent."""
        first = self._segments[0].step
        if self.began_at < first:
            parent = self.run.birth().get("parent")
            name = parent.get("path") if isinstance(parent, dict) else "its parent"
            raise RunError(f"{self.run.name} is a fork that begins at step {first:,}; before that it is {name}")

    def _open(self) -> None:
        self._opened = ExitStack()
        self._stack.callback(lambda: self._opened.close())
        with silent():
            opened = open_recorded_run(self.scratch, stop=StopRequest(), changes={}, **self._given)
            self.opened: OpenRun = self._opened.enter_context(opened)
        self.loop: Loop = self.opened.loop
        self.loop.outputs.keeps_checkpoints = False
        self.loop.start(self.opened.observations, self.opened.infos)

    def close(self) -> None:
        """Close its envs, and remove the scratch folder."""
        self._stack.close()

    # --- onwards ----------------------------------------------------------------------------------------------------

    def to(self, moment: Moment) -> None:
        """Train up to a moment. Where the run was resumed with another configuration, so is this one."""
        for later in self._segments[self._segment + 1 :]:
            if later.step > moment.known or self.over:
                break
            self.to_step(later.step)
            self._reopen(later)
        if moment.update is not None:
            self.to_update(moment.update)
        else:
            self.to_step(moment.step or 0)
        self._refuse_later(moment)
        if self.loop.collector.is_asynchronous:
            self.loop.take_episodes()  # which on a GPU are counted when somebody looks

    def _refuse_later(self, moment: Moment) -> None:
        """Refuse a step or an update after the end of the run. What happened in the run has a text."""
        steps, updates = self.loop.steps, self.loop.learner.updates
        missed = steps < (moment.step or 0) if moment.update is None else updates + 1 < moment.update
        if self.over and missed and not moment.text:
            raise OptionError(f"{moment} is after the end of {self.run.name}: step {steps:,}, update {updates:,}")

    def _reopen(self, segment: RunSegment) -> None:
        Checkpoints(self.scratch.checkpoints).save(self.loop.steps, self.loop.tree())
        self._opened.close()
        self.scratch.write_config(quiet(segment.config).model_dump(mode="json"))
        self._segment += 1
        self._open()

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return bool(self.loop.end_reason())

    def to_step(self, step: int) -> None:
        """Train as long as no more than so many steps were made. What is due at the last one is done."""
        loop = self.loop
        while not self.over:
            rounds = (step - loop.steps) // loop.num_envs
            whole = loop.learner.steps_until_update if self._in_rollouts else 1
            if rounds < whole and not self._full:
                return
            self.round(rounds)

    def to_update(self, number: int) -> None:
        """Train until the next thing to do is the update of this number: an on-policy learner's rollout is full then.
        Off-policy learners make updates while the envs step."""
        loop, learner = self.loop, self.loop.learner
        while not self.over and learner.updates < number:
            if learner.on_policy:
                if learner.updates == number - 1:
                    if not self._full:
                        loop.collect()
                    return
                self.round()
                continue
            left = number - learner.updates - int(learner.updates_due)
            if left <= 0:
                return
            each = learner.options.updates_per_step * loop.num_envs + 1  # at most so many in a round
            self.round(max(1, int(left / each)))

    @property
    def _in_rollouts(self) -> bool:
        """Whether rollouts are made as a whole: by several processes, and on a GPU as one graph."""
        learner = self.loop.learner
        return learner.processes > 1 or (learner.on_policy and self.loop.collector.is_asynchronous)

    @property
    def _full(self) -> bool:
        """Whether the rollout of an on-policy learner waits for its update."""
        return self.loop.learner.on_policy and self.loop.learner.ready()

    def round(self, most: int | None = None) -> None:
        """What the loop of a run does again and again; with at most so many steps of each env."""
        loop = self.loop
        if not self._full:
            loop.collect(most)
        loop.learn()
        if not loop.in_rollout:
            self.evidence.check(loop)
            loop.evaluate_save_and_log()

    # --- whether it is the same -------------------------------------------------------------------------------------

    def doubts(self) -> list[str]:
        """Why this may not be what the run was; the first ones are certain."""
        found = [self.evidence.difference] if self.evidence.difference else []
        if self.loop.state.restarts:
            found.append("envs of the run failed and were restarted")
        return found

    def other_versions(self) -> list[str]:
        """Packages and machines that are not those of then."""
        then, now = self._segments[self._segment], package_versions()
        texts = [
            f"{name} was {number}, and is {now.get(name, 'missing')}"
            for name, number in then.versions.items()
            if now.get(name) != number
        ]
        if then.machine and then.machine != machine_text():
            texts.append(f"the machine was {then.machine}, and is {machine_text()}")
        return texts
