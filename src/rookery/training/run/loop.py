"""The loop of a run: gather, learn, and now and then evaluate, save and tell."""

from __future__ import annotations

import math
import time
from typing import Any

from rookery.config import RunConfig
from rookery.engine.engine import Engine
from rookery.errors import RunError, StateError
from rookery.learners.learner import Tree, module_state
from rookery.learners.space_json import to_tree
from rookery.monitor.events import Event
from rookery.training.curriculum.curriculum import Curriculum, NoCurriculum
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.run.adaptive_envs import Adaptive
from rookery.training.run.collector import Collector
from rookery.training.run.components import RunComponents
from rookery.training.run.recent_episodes import RecentEpisodes
from rookery.training.run.stopwatch import Stopwatch
from rookery.training.schedule import Counts, Every
from rookery.training.storage.load_agent import check_fits
from rookery.training.storage.state_tree import check_kinds

TELL_EVERY = 0.5  # seconds between two lines of progress


class Loop:
    """Runs until the wanted steps, episodes or evaluation are reached, or until it is asked to stop."""

    def __init__(self, config: RunConfig, crew: RunComponents) -> None:
        self.config, self.crew = config, crew
        self.envs, self.learner, self.stop = crew.envs, crew.learner, crew.stop
        self.lead = Curriculum(config, crew.envs) if isinstance(crew.envs, CurriculumVectorEnv) else NoCurriculum()
        self.watch = Stopwatch()
        self.gatherer = Collector(crew.envs, crew.learner, self.watch, self._share)
        self.episodes = RecentEpisodes()
        self.gatherer.outcomes = self.episodes.note
        self.seconds = 0.0  # of earlier sittings
        self._started = time.perf_counter()
        self.last_evaluation: float | None = None
        self.best_evaluation: float | None = None
        self._evaluated_at = self._saved_at = -1
        self._exact = True
        self._looked_at = Counts(0, 0)
        length = config.steps, self.lead.episodes
        self._evaluations = Every.of(config.evaluation.every, config.evaluation.every_episodes, *length)
        self._saves = Every.of(config.checkpoints.every, config.checkpoints.every_episodes, *length)

    def run(self, observations: Any, infos: dict[str, Any]) -> str:
        """Go on from these observations; returns why it ended."""
        self._started = self._told_at = time.perf_counter()
        self._told_steps = self._first_steps = self.steps
        self._first_share = self._share(self.steps)
        self.gatherer.begin(observations, infos)
        self._look_around()  # a run that was interrupted may have had no time for it
        compiled = self._engine.backend == "kernel"
        self._event("doing", text="making the first steps" + " (a machine's first run compiles)" * compiled)
        while not (reason := self._reason()):
            self._go_on_with_next_phase()
            self._advance()
            self._look_around()
        if reason != "interrupted" and self._evaluated_at != self.steps:
            self._evaluate()
        if self.steps > self._told_steps:
            self._tell()
        self._save()
        return reason

    @property
    def steps(self) -> int:
        """Steps made by all envs so far."""
        return self.gatherer.steps

    @property
    def _engine(self) -> Engine:
        return self.envs.engine if isinstance(self.envs, CurriculumVectorEnv) else self.envs

    @property
    def counts(self) -> Counts:
        return Counts(self.steps, self.episodes.count)

    def _share(self, steps: int) -> float:
        """How much of the run is over after so many steps."""
        return self.lead.share(steps / self.config.steps)

    @property
    def elapsed(self) -> float:
        """Seconds the run has taken, in all its sittings."""
        return self.seconds + time.perf_counter() - self._started

    @property
    def speed(self) -> float:
        """Steps a second in this sitting."""
        return (self.steps - self._first_steps) / max(time.perf_counter() - self._started, 1e-9)

    def _reason(self) -> str:
        """Why the run is over, or nothing."""
        goal, episodes = self.config.evaluation.stop_at, self.config.episodes
        if self.stop.asked:
            return "interrupted"
        if goal is not None and self.last_evaluation is not None and self.last_evaluation >= goal:
            return "goal reached"
        if (
            self.lead.finished
            or self.steps >= self.config.steps
            or (episodes is not None and self.episodes.count >= episodes)
        ):
            return "finished"
        return ""

    def _advance(self) -> None:
        """A whole rollout, or as many steps as may be made before something else is due."""
        rounds = self.learner.steps_until_update
        if not self.learner.on_policy:
            rounds = min(rounds, math.ceil(self._steps_to_next_event() / self.envs.num_envs))
        self.gatherer.gather(rounds, self._must_stop)
        if self.learner.on_policy:
            self.gatherer.learn()
        self.episodes.add(self.lead.counted(self.envs.finished_episodes()))

    def _must_stop(self) -> bool:
        """Whether no further step may be made for now. Rollouts are completed, whatever is due."""
        if self.stop.asked:
            return True
        if self.learner.on_policy or not self.lead.pending_episodes:
            return False
        counts = Counts(self.steps, self.episodes.count + self.lead.pending_episodes)
        return self.lead.phase_over or self._saves.passed(self._looked_at, counts)

    def _steps_to_next_event(self) -> float:
        due = [every.steps_left(self.steps) for every in (self._evaluations, self._saves)]
        return min(self.config.steps - self.steps, self.lead.steps_left, *due)

    def _look_around(self) -> None:
        """What is due after some steps. Evaluations and checkpoints are due by counts, news by the clock."""
        if self.stop.asked:
            return
        before, self._looked_at = self._looked_at, self.counts
        better = False
        if self._evaluations.passed(before, self.counts) and self._evaluated_at != self.steps:
            better = self._evaluate()
        due = self._saves.passed(before, self.counts)
        self._keep_opponents(before.steps, due)
        if better or due:
            self._save()
        if time.perf_counter() - self._told_at > TELL_EVERY:
            self._tell()
        if self.crew.adaptive is not None:
            self._adapt(self.crew.adaptive)

    # --- phases and opponents -------------------------------------------------------------------------------------

    def _go_on_with_next_phase(self) -> None:
        """At the end of a phase, all envs begin the next one at once."""
        if isinstance(self.lead, Curriculum) and self.lead.phase_over and not self.lead.finished:
            self.gatherer.begin(*self.lead.advance(self.learner))
            self._tell_phase(self.lead)
            self._save()  # unless there is one already, which would begin the phase as here

    def _tell_phase(self, lead: Curriculum) -> None:
        told = lead.announcement(self.episodes.count)
        if told is not None:
            self._event("note", **told)

    def _keep_opponents(self, before: int, saved: bool) -> None:
        try:
            agent = lambda: self._agent_tree(module_state(self.learner.policy))  # noqa: E731
            self.lead.keep_opponents(before, self.steps, saved, agent)
        except RunError as error:
            self._event("note", text=f"{error}; the run goes on")

    # --- looking at the agent -------------------------------------------------------------------------------------

    def _evaluate(self) -> bool:
        """Whether it is the best so far."""
        self._event("doing", text="evaluating")
        evaluation = self.crew.evaluator.run(self.learner.agent, lambda: self.stop.asked)
        if evaluation is None:
            return False
        better = self.best_evaluation is None or evaluation.mean > self.best_evaluation
        self.last_evaluation, self._evaluated_at = evaluation.mean, self.steps
        if better:
            self.best_evaluation = evaluation.mean
        self._event("evaluation", **evaluation.figures(), **{"eval/best": better})
        return better

    def _tell(self) -> None:
        now = time.perf_counter()
        speed = (self.steps - self._told_steps) / max(now - self._told_at, 1e-9)
        done = self._share(self.steps)
        self._event(
            "progress",
            **self.episodes.figures(),
            **self.lead.figures(),
            **self.watch.shares(),
            **{f"loss/{name}": value for name, value in self.gatherer.figures.items()},
            steps_per_second=speed,
            eta_seconds=self._seconds_left(done),
            share=done,
            updates=self.learner.updates,
            num_envs=self.envs.num_envs,
            learning_rate=self.learner.learning_rate,
        )
        self._told_at, self._told_steps = now, self.steps

    def _seconds_left(self, done: float) -> float | None:
        """At the pace of this sitting, by how much of the run it has done."""
        mine = done - self._first_share
        left = max(0.0, 1.0 - done)
        return (time.perf_counter() - self._started) * left / mine if mine > 0 else None

    def _event(self, kind: str, **values: Any) -> None:
        self.crew.sinks.write(Event(kind, self.steps, values, time.time()))

    # --- more or fewer envs ---------------------------------------------------------------------------------------

    def _adapt(self, adaptive: Adaptive) -> None:
        wanted = adaptive.wanted(self.steps, self.envs.num_envs)
        if wanted == self.envs.num_envs or not self.learner.can_resize:
            return
        self._event("note", text=f"{self.envs.num_envs} envs -> {wanted}: {adaptive.reason}", num_envs=wanted)
        self.gatherer.resize(wanted, seed=self.config.seed + self.steps)
        self.learner.resize(wanted)

    # --- going on later -------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """A checkpoint; if the disk is full the run goes on with the one before."""
        if self._saved_at == self.steps:
            return
        started = time.perf_counter()
        score = self.last_evaluation if self._evaluated_at == self.steps else None
        try:
            path = self.crew.checkpoints.save(self.steps, self.state(), score=score)
        except OSError as error:
            self._event("note", text=f"no checkpoint at step {self.steps}: {error}; the run goes on")
            return
        self._saved_at = self.steps
        size = sum(file.stat().st_size for file in path.iterdir())
        self._event("checkpoint", path=str(path), seconds=time.perf_counter() - started, bytes=size)

    def state(self) -> Tree:
        """Everything that decides how the run goes on."""
        learner = self.learner.state(replay=self.config.checkpoints.replay)
        return {
            "agent": self._agent_tree(learner.pop("policy")),
            "learner": learner,
            "envs": self._env_state(),
            **self._state(),
        }

    def _state(self) -> Tree:
        """What the loop itself knows."""
        return {
            "course": self.lead.state(),
            "loop": {
                "steps": self.steps,
                "seconds": self.elapsed,
                "num_envs": self.envs.num_envs,
                "episodes": self.episodes.state(),
                "last_evaluation": self.last_evaluation,
                "best_evaluation": self.best_evaluation,
                "evaluated_at": self._evaluated_at,
                "looked_at": list(self._looked_at),
            },
        }

    def _agent_tree(self, policy: Tree) -> Tree:
        """The agent, without what only its learner needs."""
        agent = self.learner.agent
        return {
            "learner": self.config.learner,
            "options": getattr(self.config, self.config.learner).model_dump(mode="json"),
            "policy": policy,
            "observation_space": to_tree(agent.observation_space),
            "action_space": to_tree(agent.action_space),
        }

    def _env_state(self) -> Tree:
        masks = self.gatherer.masks
        try:
            state = {"engine": self._engine.state_dict(portable=True)}
        except StateError as error:
            if self._exact:
                self._event("note", text=f"a resumed run will begin new episodes, so it will not be the same: {error}")
            self._exact = False
            return {}
        return state if masks is None else state | {"masks": masks}

    def begin(self) -> tuple[Any, dict[str, Any]]:
        """Begin anew; returns the observations to go on from."""
        self.lead.adjust(self.learner)
        for text in self.lead.notes:
            self._event("note", text=text)
        if isinstance(self.lead, Curriculum):
            self._tell_phase(self.lead)
        return self.envs.reset(seed=self.config.seed)

    def load(self, tree: Tree) -> tuple[Any, dict[str, Any]]:
        """Take up a checkpoint; returns the observations to go on from."""
        check_fits(tree["agent"], self.learner.agent)
        check_kinds(tree, {**self._state(), "learner": self.learner.state()})
        loop = tree["loop"]
        self.gatherer.steps, self.seconds = loop["steps"], loop["seconds"]
        self.episodes.load(loop["episodes"])
        self.last_evaluation, self.best_evaluation = loop["last_evaluation"], loop["best_evaluation"]
        self._evaluated_at, self._saved_at = loop["evaluated_at"], self.steps
        self.learner.load({**tree["learner"], "policy": tree["agent"]["policy"]})
        self._looked_at = Counts(*loop.get("looked_at", self.counts))
        self.lead.load(tree.get("course", {}))
        self.lead.adjust(self.learner)
        saved = tree["envs"]
        if not saved:
            self.learner.reset_envs(slice(0, self.envs.num_envs))
            return self.envs.reset(seed=self.config.seed + self.steps)
        self._engine.reset(seed=self.config.seed)
        observations = self.envs.load_state_dict(saved["engine"])
        return observations, {"action_mask": saved["masks"]} if "masks" in saved else {}
