"""Makes a run's curriculum env and names its opponents, from a resolved run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.config import Phase, RunConfig
from rookery.engine.engine import Engine
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.learners.learner import Learner
from rookery.training.curriculum.opponents import Opponents
from rookery.training.curriculum.phases import Phases
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.league.archive import FOLDER
from rookery.training.league.league import League
from rookery.training.players.agents import check_player
from rookery.training.players.random_player import NAME as RANDOM
from rookery.training.resolve.curriculum_config import (
    NO_STEP_LIMIT,
    OWN_AGENTS,
    all_opponents,
    needs_two_player_form,
)
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.seats import SCRIPTS
from rookery.training.resolve.world_choice import World, num_agents, takes_turns

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
