"""Where a run is: everything that decides how it continues, as a checkpoint holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.engine.engine import Engine
from rookery.engine.seeding import ChildSeeds
from rookery.errors import StateError
from rookery.learners.learner import Learner, Tree, module_state
from rookery.learners.plain_spaces import to_tree
from rookery.training.curriculum.curriculum import Curriculum, NoCurriculum
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.evaluation.evaluator import Evaluation
from rookery.training.evaluation.win_record import interval_of, is_better
from rookery.training.run.collector import Collector
from rookery.training.run.recent_episodes import RecentEpisodes
from rookery.training.run.timing import RunClock, RunCounts, Stopwatch
from rookery.training.storage.checkpoint_files import check_types
from rookery.training.storage.load_agent import check_fits


class TrainingState:
    """The envs and the learner of a run, and what its loop has counted and measured so far."""

    def __init__(self, config: RunConfig, envs: Engine | CurriculumVectorEnv, learner: Learner) -> None:
        self.config, self.learner = config, learner
        self.curriculum = Curriculum(config, envs) if isinstance(envs, CurriculumVectorEnv) else NoCurriculum()
        self.clock, self.stopwatch, self.episodes = RunClock(), Stopwatch(), RecentEpisodes()
        self.collector = make_collector(envs, learner, self.stopwatch, self.share_done)
        self.collector.on_outcomes = self.episodes.add_outcomes
        self.collector.on_final_numbers = self.episodes.infos.add
        self.collector.on_window = self.episodes.replace
        self.last_evaluation: float | None = None
        self.best_evaluation: float | None = None
        self.last_interval: list[float] = []  # of the last evaluation's mean
        self.last_is_worse = False  # than the best, by more than noise
        self.best_returns: list[float] = []  # of the best evaluation's episodes
        self.evaluated_at = self.saved_at = self.best_at = -1  # steps
        self.checked_at = RunCounts(0, 0)  # when the loop last did what was due
        self.rollout_began_at = 0  # episodes before the rollout of the next update
        self.restarts_before = 0  # of envs in engines before the present one
        self.why_inexact = ""  # why the envs cannot be saved, so that a resumed run begins new episodes

    @property
    def steps(self) -> int:
        """Steps of all envs so far."""
        return self.collector.steps

    @property
    def counts(self) -> RunCounts:
        return RunCounts(self.steps, self.episodes.count)

    @property
    def envs(self) -> Engine | CurriculumVectorEnv:
        return self.collector.envs

    @property
    def engine(self) -> Engine:
        return self.envs.engine if isinstance(self.envs, CurriculumVectorEnv) else self.envs

    @property
    def restarts(self) -> int:
        """How many times envs or workers that failed were restarted, in the whole run."""
        return self.restarts_before + self.engine.restarts + self.collector.restarts_elsewhere

    @property
    def episodes_in_run(self) -> int | None:
        """How many episodes the run has; None if its length is not in episodes."""
        lengths = [length for length in (self.config.episodes, self.curriculum.episodes) if length is not None]
        return min(lengths, default=None)

    @property
    def pending_episodes(self) -> int:
        """Episodes that have ended since the envs' list of them was last read."""
        return self.curriculum.pending_episodes if isinstance(self.curriculum, Curriculum) else self.collector.ended

    def share_done(self, steps: int) -> float:
        """The share of the run that is done after so many steps: now, or when the rollout of the next update began."""
        share = self.curriculum.share_done(steps / self.config.steps)
        if self.config.episodes is None:
            return share
        episodes = self.rollout_began_at if steps < self.steps else self.episodes.count + self.pending_episodes
        return min(1.0, max(share, episodes / self.config.episodes))

    def add_episodes(self, finished: np.ndarray) -> np.ndarray:
        """Count finished episodes, no more than the run has; returns those that count."""
        finished = self.curriculum.counted(finished)
        others = self.curriculum.counted_others(self.collector.uncounted_episodes)
        if self.config.episodes is not None:
            left = max(0, self.config.episodes - self.episodes.count)
            finished, others = finished[:left], min(others, max(0, left - len(finished)))
        self.episodes.add(finished, others)
        self.collector.ended = self.collector.uncounted_episodes = 0
        if not self.learner.steps_since_update:
            self.rollout_began_at = self.episodes.count
        return finished

    def add_evaluation(self, evaluation: Evaluation, step: int) -> bool:
        """Keep the result of an evaluation of this step's weights; returns whether it is the best so far, by more than
        noise. The first one is, and one that reaches the goal."""
        mean, best, goal = evaluation.mean, self.best_evaluation, self.config.evaluation.stop_at
        self.last_evaluation, self.evaluated_at = mean, step
        self.last_interval = list(interval_of(evaluation.returns))
        is_best = best is None or is_better(evaluation.returns, self.best_returns, best)
        if best is not None and goal is not None and best < goal <= mean:
            is_best = True
        if is_best:
            self.best_evaluation, self.best_returns, self.best_at = mean, evaluation.returns, step
        known = not is_best and len(self.best_returns) > 0  # they are not in a run of an earlier version
        self.last_is_worse = known and is_better(self.best_returns, evaluation.returns, mean)
        return is_best

    # --- saving -------------------------------------------------------------------------------------------------

    def tree(self) -> Tree:
        """The parts of a checkpoint."""
        learner = self.learner.state(replay=self.config.checkpoints.replay)
        return {
            "agent": self._agent_tree(learner.pop("policy")),
            "learner": learner,
            "envs": self.env_tree(),
            **self._loop_tree(),
        }

    def agent_tree(self) -> Tree:
        """The part "agent" alone: what acting needs, without what only the learner needs."""
        return self._agent_tree(module_state(self.learner.policy))

    def _agent_tree(self, policy: Tree) -> Tree:
        agent, config = self.learner.agent, self.config
        return {
            "learner": config.learner,
            "options": config.learner_options.model_dump(mode="json"),
            "policy": policy,
            "observation_space": to_tree(agent.observation_space),
            "action_space": to_tree(agent.action_space),
        }

    def env_tree(self) -> Tree:
        """The envs' own state, if they can give it, and the action masks of their next step."""
        try:
            state = {"engine": self.engine.state_dict(portable=True)}
        except StateError as error:
            self.why_inexact = str(error)
            return {}
        masks = self.collector.masks
        return state if masks is None else state | {"masks": masks}

    def _loop_tree(self) -> Tree:
        return {
            "course": self.curriculum.state(),
            "loop": {
                "steps": self.steps,
                "seconds": self.clock.elapsed,
                "num_envs": self.envs.num_envs * self.learner.processes,
                "episodes": self.episodes.state(),
                "last_evaluation": self.last_evaluation,
                "best_evaluation": self.best_evaluation,
                "last_interval": self.last_interval,
                "last_is_worse": self.last_is_worse,
                "best_returns": self.best_returns,
                "evaluated_at": self.evaluated_at,
                "looked_at": list(self.checked_at),
                "rollout_began_at": self.rollout_began_at,
                "restarts": self.restarts,
            },
        }

    # --- loading ------------------------------------------------------------------------------------------------

    def load(self, tree: Tree) -> tuple[Any, dict[str, Any]]:
        """Continue from `tree()`; returns the observations and infos to train from."""
        check_fits(tree["agent"], self.learner.agent)
        check_types(tree, {**self._loop_tree(), "learner": self.learner.state()})
        loop = tree["loop"]
        self.collector.steps, self.clock.seconds_before = loop["steps"], loop["seconds"]
        self.episodes.load(loop["episodes"])
        self.last_evaluation, self.best_evaluation = loop["last_evaluation"], loop["best_evaluation"]
        self.last_interval, self.best_returns = loop.get("last_interval", []), loop.get("best_returns", [])
        self.last_is_worse = loop.get("last_is_worse", False)
        self.evaluated_at, self.saved_at = loop["evaluated_at"], self.steps
        self.learner.load({**tree["learner"], "policy": tree["agent"]["policy"]})
        self.checked_at = RunCounts(*loop.get("looked_at", self.counts))
        self.rollout_began_at = loop.get("rollout_began_at", self.episodes.count)
        self.restarts_before = loop.get("restarts", 0)
        self.curriculum.load(tree.get("course", {}))
        self.curriculum.apply_options(self.learner)
        return self.load_envs(tree["envs"])

    def reset_envs(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """New episodes in all envs; returns their observations and infos."""
        return self.envs.reset(seed=ChildSeeds.of(seed, self.engine, self.learner.rank))

    def begin_again(self) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes in all envs: their last ones were broken off, or cannot be continued."""
        self.learner.reset_envs(slice(0, self.envs.num_envs))
        return self.reset_envs(self.config.seed + self.steps)

    def _in_same_places(self, saved: Tree) -> bool:
        """Whether the envs were saved by as many collectors of a cluster as step them now."""
        same = saved.get("shares") == getattr(self.engine, "shares", None)
        if not same and self.engine.on_note is not None:
            self.engine.on_note("the envs were divided over other collectors before: all of them begin new episodes")
        return same

    def load_envs(self, saved: Tree) -> tuple[Any, dict[str, Any]]:
        if (
            not saved
            or saved.get("processes", 1) != self.learner.processes
            or not self._in_same_places(saved["engine"])
        ):
            return self.begin_again()
        self.engine.reset(seed=ChildSeeds.of(self.config.seed, self.engine, self.learner.rank))
        observations = self.envs.load_state_dict(saved["engine"])
        return observations, {"action_mask": saved["masks"]} if "masks" in saved else {}


def make_collector(envs: Any, learner: Learner, stopwatch: Stopwatch, share_done: Callable[[int], float]) -> Collector:
    """The one place where a run's collector is chosen: by whether its envs return arrays, tensors or whole rollouts."""
    if hasattr(envs, "make_collector"):  # they step elsewhere
        return envs.make_collector(learner, stopwatch, share_done)
    if not getattr(envs, "returns_tensors", False):
        return Collector(envs, learner, stopwatch, share_done)
    from rookery.training.run.device_collector import DeviceCollector, RoundCollector  # a run on a CPU needs none of it

    kind = DeviceCollector if learner.on_policy else RoundCollector
    return kind(envs, learner, stopwatch, share_done)
