"""What phases and opponents add to a training loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config import Phase, RunConfig
from rookery.engine.engine import Engine
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError, RunError
from rookery.learners.learner import Learner, Tree
from rookery.training.curriculum.opponents import Opponents
from rookery.training.curriculum.phases import Phases
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.league.archive import FOLDER
from rookery.training.league.league import League
from rookery.training.players.agents import check_player
from rookery.training.players.file_player import NAME as RANDOM
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.seats import (
    NO_STEP_LIMIT,
    OWN_AGENTS,
    SCRIPTS,
    all_opponents,
    counts_episodes,
    needs_two_player_form,
)
from rookery.training.resolve.world_choice import World, num_agents, takes_turns


class NoCurriculum:
    """A run without phases: nothing is added, and its steps alone decide how long it is."""

    episodes: int | None = None  # of the run, if its length is in episodes

    @property
    def finished(self) -> bool:
        """Whether the last phase is over."""
        return False

    @property
    def phase_over(self) -> bool:
        """Whether the current phase is over."""
        return False

    @property
    def steps_left(self) -> float:
        """Until something is due by steps."""
        return math.inf

    @property
    def pending_episodes(self) -> int:
        """Episodes that have ended and that `counted` has not returned yet."""
        return 0

    @property
    def notes(self) -> list[str]:
        """What the user should know when the run begins."""
        return []

    def share_done(self, by_steps: float) -> float:
        """The share of the run that is done."""
        return by_steps

    def counted(self, finished: np.ndarray) -> np.ndarray:
        """Those of the finished episodes that belong to the phase."""
        return finished

    def counted_others(self, others: int) -> int:
        """How many of the episodes that were not listed belong to the phase, after a call of `counted`."""
        return others

    def metrics(self) -> dict[str, Any]:
        """What progress events hold of it."""
        return {}

    def announcement(self, episodes: int) -> dict[str, Any] | None:
        """The note about the phase that begins, if there are several."""
        return None

    def keep_opponents(self, before: int, steps: int, saved: bool, agent: Callable[[], Tree]) -> None:
        """Keep copies of the agent as opponents, where they are due between `before` and `steps`."""

    def apply_options(self, learner: Learner) -> None:
        """Give the learner the options of the phase."""

    def state(self) -> Tree:
        return {}

    def load(self, state: Tree) -> None:
        """Continue from `state()`."""


class Curriculum(NoCurriculum):
    """Takes a run through the phases of its envs."""

    def __init__(self, config: RunConfig, envs: CurriculumVectorEnv) -> None:
        self._config, self.envs = config, envs
        self._ends = self.phases.all[-1].ends  # asking the phases of envs on a GPU would wait for them
        self._others = 0  # episodes of the phase that were not listed when they were last counted
        if counts_episodes(self.phases.all):
            self.episodes = sum(phase.episodes or 0 for phase in self.phases.all)

    @property
    def phases(self) -> Phases:
        return self.envs.phases

    @property
    def finished(self) -> bool:
        return self.phases.last and self.phases.over

    @property
    def phase_over(self) -> bool:
        return self.phases.over

    @property
    def steps_left(self) -> float:
        opponents, of_phase = self.envs.opponents, self.phases.steps_left
        entry = math.inf if opponents is None else opponents.league.steps_until_due(self.envs.steps)
        return min(of_phase, entry)

    @property
    def pending_episodes(self) -> int:
        return self.phases.uncollected

    @property
    def notes(self) -> list[str]:
        names = self.envs.opponents.without_saved_memory if self.envs.opponents is not None else []
        return [f"the memory of {who} cannot be saved, so a resumed run will not be the same" for who in names]

    def share_done(self, by_steps: float) -> float:
        return max(by_steps, self.phases.share_done) if self._ends else by_steps

    def counted(self, finished: np.ndarray) -> np.ndarray:
        belonging = self.phases.collect()
        self._others = max(0, belonging - len(finished))
        return finished[:belonging]

    def counted_others(self, others: int) -> int:
        return min(others, self._others)

    def metrics(self) -> dict[str, Any]:
        return {"phase": self.phases.index + 1}

    def begin_next_phase(self, learner: Learner) -> tuple[Any, dict[str, Any]]:
        """Begin the next phase in all envs at once; returns their observations and infos."""
        begun = self.envs.begin_next_phase()
        learner.reset_envs(slice(0, self.envs.num_envs))
        if self.phases.current.clear_replay:
            learner.clear_replay()
        self.apply_options(learner)
        return begun

    def apply_options(self, learner: Learner) -> None:
        own = self._config.learner_options.model_dump()
        learner.adjust({**own, **self.phases.current.learner})

    def announcement(self, episodes: int) -> dict[str, Any] | None:
        if len(self.phases.all) == 1:
            return None
        number = self.phases.index + 1
        text = f"{self.phases.title} ({number} of {len(self.phases.all)}) begins after {episodes:,} episodes"
        return {"text": text, "phase": number, "episodes": episodes}

    def keep_opponents(self, before: int, steps: int, saved: bool, agent: Callable[[], Tree]) -> None:
        opponents = self.envs.opponents
        if opponents is None:
            return
        if saved:
            opponents.checkpoint_saved(steps)
        entered = opponents.league.due(before, steps)
        try:
            if entered:
                opponents.league.enter(steps, agent())
        except OSError as error:
            raise RunError(f"the agent could not enter the league: {error}") from error
        try:
            opponents.league.log_ratings(before, steps, now=entered)
        except OSError as error:
            raise RunError(f"the ratings of the league could not be written: {error}") from error

    def state(self) -> Tree:
        return self.envs.curriculum_state()

    def load(self, state: Tree) -> None:
        self.envs.load_curriculum_state(state)


CURRICULUM_KEY = 1_000_037  # sets the random numbers of a curriculum apart from all others
BASELINES = ("weak", "strong")  # the scripted opponents of a world that has some
TYPICAL_EPISODE_STEPS = 200  # to estimate the steps of a run whose length is in episodes


def check_opponents(config: RunConfig) -> None:
    """Refuse opponents that do not exist, before anything is compiled and before the run has a folder."""
    named = [opponent.who for opponent in all_opponents(config)]
    for who in (*named, *config.evaluation.opponents, *config.league.baselines):
        if who not in OWN_AGENTS:
            check_player(who, config.runs_dir)


def evaluation_opponents(run: ResolvedRun) -> list[str]:
    """The opponents in evaluations: those named for it or, in a run with opponents, the world's scripts, or other
    opponents of the run, or random actions. A game with turns is evaluated in games in any case: the returns of its two
    players say nothing without an opponent."""
    config, has_two_agents = run.config, num_agents(run.world) == 2
    named = [opponent.who for opponent in all_opponents(config)]
    if config.evaluation.opponents or not named:
        return config.evaluation.opponents or [RANDOM] * (has_two_agents and takes_turns(run.world))
    if "opponent" in (_parameters(run.world) or {}):
        return list(BASELINES)
    others = dict.fromkeys(who for who in named if who not in OWN_AGENTS)
    return list(others) or [RANDOM if has_two_agents else "none"]


def make_curriculum_env(run: ResolvedRun, engine: Engine, learner: Learner, folder: Path) -> CurriculumVectorEnv:
    """An engine's envs with the phases and opponents of a run. The league's files go to the run's `folder`."""
    config, parameters = run.config, _parameters(run.env_world)
    named = {opponent.who for opponent in all_opponents(config)}
    has_scripts = bool(named) and "opponent" in (parameters or {})
    _check_phase_options(config, run.env_world, parameters, named, has_scripts)
    seed = child_seed(config.seed, CURRICULUM_KEY)
    defaults = _option_defaults(config, run.env_world, parameters)
    phases = Phases(config.all_phases, seed)
    if engine.backend == "cuda":
        return _on_device(run, engine, learner, folder, phases, defaults, has_scripts, seed)
    opponents = _make_opponents(run, learner, folder, has_scripts) if needs_two_player_form(config) else None
    return CurriculumVectorEnv(engine, phases, defaults, opponents, has_scripts, config.reward_scale, seed)


def _on_device(
    run: ResolvedRun,
    engine: Any,
    learner: Learner,
    folder: Path,
    phases: Phases,
    defaults: dict[str, Any],
    has_scripts: bool,
    seed: int,
) -> CurriculumVectorEnv:
    """The same with tensors. Imported late: the CPU's runs need no code for GPUs."""
    from rookery.training.curriculum.device_opponents import DeviceOpponents
    from rookery.training.curriculum.device_vector_env import DeviceCurriculumVectorEnv

    config, opponents = run.config, None
    if needs_two_player_form(config):
        assert run.seat is not None
        league, named = _make_league(run, folder, has_scripts), all_opponents(config)
        opponents = DeviceOpponents(learner, run.seat, Path(config.runs_dir), league, named, engine.num_envs)
    length = learner.steps_until_update
    return DeviceCurriculumVectorEnv(
        engine, phases, defaults, opponents, has_scripts, config.reward_scale, seed, length
    )


def _make_league(run: ResolvedRun, folder: Path, has_scripts: bool) -> League:
    config = run.config
    return League(folder / FOLDER, config.league, _expected_steps(config), BASELINES if has_scripts else ())


def _make_opponents(run: ResolvedRun, learner: Learner, folder: Path, has_scripts: bool) -> Opponents:
    config = run.config
    assert run.seat is not None
    league = _make_league(run, folder, has_scripts)
    opponents = Opponents(learner, run.seat, Path(config.runs_dir), league)
    for opponent in all_opponents(config):
        if opponent.who.lower() not in SCRIPTS:
            opponents.check(opponent.who, opponent.deterministic)
    return opponents


def _parameters(world: World) -> dict[str, Any] | None:
    """The parameters of a kernel world, with their values; None for other worlds, whose parameters are not known."""
    kernel_world = world.kernel_world
    if kernel_world is None:
        return None
    values = kernel_world.values
    return {**values, **{alias: values[name] for alias, name in kernel_world.aliases.items() if name in values}}


def _expected_steps(config: RunConfig) -> int:
    """The run's length in steps, estimated where it is in episodes."""
    if config.steps < NO_STEP_LIMIT:
        return config.steps
    lengths = [phase.steps or TYPICAL_EPISODE_STEPS * (phase.episodes or 0) for phase in config.phases]
    limit = TYPICAL_EPISODE_STEPS * (config.episodes or 0)
    return max(1, sum(lengths) or limit)


def _option_defaults(config: RunConfig, world: World, parameters: dict[str, Any] | None) -> dict[str, Any]:
    """Values of the options that some phase changes, for the phases that do not name them."""
    changed = {key for phase in config.all_phases for key in _options(phase)}
    if not changed or parameters is None:
        return {}
    given = {key: value for key, value in world.env_kwargs.items() if key in parameters}
    return {key: parameters[key] for key in changed} | given


def _options(phase: Phase) -> set[str]:
    return set(phase.options) | {key for variant in phase.mixture for key in variant.options}


def _check_phase_options(
    config: RunConfig, world: World, parameters: dict[str, Any] | None, named: set[str], has_scripts: bool
) -> None:
    scripted = sorted(who for who in named if SCRIPTS.get(who.lower()) not in (None, "none"))
    if scripted and not has_scripts:
        raise OptionError(
            f"{world.name} has no scripted opponent {scripted[0]!r}; give an agent: file.py:Agent or a run"
        )
    if parameters is None:
        return
    for phase in config.all_phases:
        for key in sorted(_options(phase) - parameters.keys()):
            name = phase.name or "phases"
            raise OptionError(f"{name}: {world.name} has no option {key!r}; it has {', '.join(sorted(parameters))}")
