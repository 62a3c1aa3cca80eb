"""From a configuration with phases and opponents to a course."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.config import Opponent, Phase, RunConfig
from rookery.engine.engine import Engine
from rookery.engine.env_factory import kernel_of, resolve
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.learners.learner import Learner
from rookery.training.curriculum.opponents import Opponents
from rookery.training.curriculum.phases import Phases
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.league.archive import FOLDER
from rookery.training.league.league import League
from rookery.training.players.agents import SCRIPTS, check_player
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import World, duel_of, spaces

COURSE_KEY = 1_000_037  # sets the draws of a course apart from all others
BASELINES = ("weak", "strong")  # the scripts of a world that has some
UNCOUNTED = 10**15  # steps of a run whose length is in episodes: more than it will ever make
EPISODE_STEPS = 200  # about as long as an episode is, where a number of steps must be guessed


def wants_duel(config: RunConfig) -> bool:
    """Whether any opponent is a policy, so that the world must be the one for two."""
    return any(opponent.who.lower() not in SCRIPTS for opponent in _opponents(config))


def _opponents(config: RunConfig) -> list[Opponent]:
    """Those of all phases."""
    return [opponent for phase in config.all_phases for opponent in phase.opponents]


def world_for(config: RunConfig, world: World) -> World:
    """The world that a run's envs are of."""
    return duel_of(world, keep_actions=True) if wants_duel(config) else world


def seat_in(config: RunConfig, world: World) -> Seat:
    """What the learner sees and does in it."""
    observation_space, action_space = spaces(world)
    seat = seat_of(observation_space, action_space) if wants_duel(config) else None
    return seat or Seat(observation_space, action_space)


def length_of(config: RunConfig, given: dict[str, Any]) -> dict[str, Any]:
    """What phases with an end of their own say about the run's length, if the user did not name one."""
    phases = config.phases
    if not phases or not phases[-1].ends or "steps" in given:
        return {}
    lengths = [phase.steps for phase in phases]
    return {"steps": sum(lengths) if all(lengths) else UNCOUNTED}  # type: ignore[arg-type]


def anchored(config: RunConfig) -> dict[str, Any]:
    """Opponents in files and folders by their whole paths, so that the run can be resumed from anywhere."""

    def moved(opponents: list[Opponent]) -> list[Opponent]:
        return [opponent.model_copy(update={"who": _whole_path(opponent.who)}) for opponent in opponents]

    phases = [phase.model_copy(update={"opponents": moved(phase.opponents)}) for phase in config.phases]
    judges = [_whole_path(who) for who in config.evaluation.opponents]
    baselines = [_whole_path(who) for who in config.league.baselines]
    return {
        "opponents": moved(config.opponents),
        "phases": phases,
        "evaluation": config.evaluation.model_copy(update={"opponents": judges}),
        "league": config.league.model_copy(update={"baselines": baselines}),
    }


def check_opponents(config: RunConfig) -> None:
    """Refuse opponents that are not there, before anything is compiled and before the run has a folder."""
    named = [opponent.who for opponent in _opponents(config)]
    for who in (*named, *config.evaluation.opponents, *config.league.baselines):
        if who not in ("self", "latest", "archive"):
            check_player(who, config.runs_dir)


def _whole_path(who: str) -> str:
    path, colon, attribute = who.rpartition(":")
    if colon and path.endswith(".py"):
        return f"{Path(path).resolve()}:{attribute}"
    return str(Path(who).resolve()) if "/" in who and Path(who).is_dir() else who


def counts_episodes(phases: list[Phase]) -> bool:
    """Whether the length of all phases is in episodes."""
    return all(phase.episodes is not None for phase in phases)


def judges(config: RunConfig, world: World) -> list[str]:
    """Whom the agent meets in evaluations: those named for it, or in a run with opponents the world's scripts."""
    named = [opponent.who for opponent in _opponents(config)]
    if config.evaluation.opponents or not named:
        return config.evaluation.opponents
    if "opponent" in (_known(world) or {}):
        return list(BASELINES)
    others = dict.fromkeys(who for who in named if who not in ("self", "latest", "archive"))
    return list(others) or ["none"]


def make_course(config: RunConfig, world: World, engine: Engine, learner: Learner, folder: Path) -> CurriculumVectorEnv:
    """Lead an engine through the phases of a run that has its folder there."""
    known = _known(world)
    named = {opponent.who for opponent in _opponents(config)}
    scripts = bool(named) and "opponent" in (known or {})
    _check_options(config, world, known, named, scripts)
    opponents = None
    if wants_duel(config):
        league = League(folder / FOLDER, config.league, _about(config), BASELINES if scripts else ())
        opponents = Opponents(learner, seat_in(config, world), Path(config.runs_dir), league)
        for opponent in _opponents(config):
            if opponent.who.lower() not in SCRIPTS:
                opponents.check(opponent.who, opponent.deterministic)
    seed = child_seed(config.seed, COURSE_KEY)
    defaults = _defaults(config, world, known)
    return CurriculumVectorEnv(
        engine, Phases(config.all_phases, seed), defaults, opponents, scripts, config.reward_scale, seed
    )


def _known(world: World) -> dict[str, Any] | None:
    """The parameters of a kernel world, with their values; None of other worlds, which do not tell."""
    kernel = kernel_of(resolve(world.source, kwargs=world.env_kwargs))
    if kernel is None:
        return None
    values = kernel.world.values
    return {**values, **{alias: values[name] for alias, name in kernel.world.aliases.items() if name in values}}


def _about(config: RunConfig) -> int:
    """The run's length in steps, or a guess at it."""
    if config.steps < UNCOUNTED:
        return config.steps
    lengths = [phase.steps or EPISODE_STEPS * (phase.episodes or 0) for phase in config.phases]
    return max(1, sum(lengths))


def _defaults(config: RunConfig, world: World, known: dict[str, Any] | None) -> dict[str, Any]:
    """What the options that some phase changes are where a phase says nothing about them."""
    changed = {key for phase in config.all_phases for key in _options(phase)}
    if not changed or known is None:
        return {}
    given = {key: value for key, value in world.env_kwargs.items() if key in known}
    return {key: known[key] for key in changed} | given


def _options(phase: Phase) -> set[str]:
    return set(phase.options) | {key for variant in phase.mixture for key in variant.options}


def _check_options(
    config: RunConfig, world: World, known: dict[str, Any] | None, named: set[str], scripts: bool
) -> None:
    played = sorted(who for who in named if SCRIPTS.get(who.lower()) not in (None, "none"))
    if played and not scripts:
        raise OptionError(f"{world.name} has no scripted opponent {played[0]!r}; give an agent: file.py:Agent or a run")
    if known is None:
        return
    for phase in config.all_phases:
        for key in sorted(_options(phase) - known.keys()):
            name = phase.name or "phases"
            raise OptionError(f"{name}: {world.name} has no option {key!r}; it has {', '.join(sorted(known))}")
