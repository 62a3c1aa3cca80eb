"""What a configuration says about opponents and phases, before any env is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.config import Opponent, Phase, RunConfig
from rookery.learners.registry import specs
from rookery.training.resolve.seats import SCRIPTS

OWN_AGENTS = ("self", "latest", "archive")  # opponents that are copies of the run's own agent
NO_STEP_LIMIT = 10**15  # `steps` of a run whose length is in episodes: more than it will ever make


def all_opponents(config: RunConfig) -> list[Opponent]:
    """The opponents of all phases."""
    return [opponent for phase in config.all_phases for opponent in phase.opponents]


def needs_two_player_form(config: RunConfig) -> bool:
    """Whether any opponent is a policy, so that the envs must be of the world's two-player form."""
    return any(opponent.who.lower() not in SCRIPTS for opponent in all_opponents(config))


def with_length_in_episodes(config: RunConfig) -> RunConfig:
    """Without a limit of steps, if the user gave `episodes` and no `steps`. A recipe's steps do not count then."""
    if config.episodes is None or "steps" in config.model_fields_set:
        return config
    return config.model_copy(update={"steps": NO_STEP_LIMIT})


def with_steps_of_phases(config: RunConfig) -> RunConfig:
    """`steps` is the length of all phases, if these have an end and the user did not give `steps`."""
    phases = config.phases
    if not phases or not phases[-1].ends or "steps" in config.model_fields_set:
        return config
    lengths = [phase.steps for phase in phases]
    return config.model_copy(update={"steps": sum(lengths) if all(lengths) else NO_STEP_LIMIT})  # type: ignore[arg-type]


def counts_episodes(phases: list[Phase]) -> bool:
    """Whether the length of all phases is in episodes."""
    return all(phase.episodes is not None for phase in phases)


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """Code and opponents in files and folders by absolute paths, so that the run can be resumed from any folder."""

    def absolute(opponents: list[Opponent]) -> list[Opponent]:
        return [opponent.model_copy(update={"who": _absolute(opponent.who)}) for opponent in opponents]

    evaluation = [_absolute(who) for who in config.evaluation.opponents]
    baselines = [_absolute(who) for who in config.league.baselines]
    phases = [phase.model_copy(update={"opponents": absolute(phase.opponents)}) for phase in config.phases]
    changes: dict[str, Any] = {
        **_absolute_sections(config),
        "opponents": absolute(config.opponents),
        "callbacks": [_absolute(name) for name in config.callbacks],
        "wrappers": [_absolute(name) for name in config.wrappers],
        "phases": phases,
        "evaluation": config.evaluation.model_copy(update={"opponents": evaluation}),
        "league": config.league.model_copy(update={"baselines": baselines}),
    }
    return config.model_copy(update=changes)


def _absolute(who: str) -> str:
    path, colon, attribute = who.rpartition(":")
    if colon and path.endswith(".py"):
        return f"{Path(path).resolve()}:{attribute}"
    return str(Path(who).resolve()) if "/" in who and Path(who).is_dir() else who


def _absolute_sections(config: RunConfig) -> dict[str, Any]:
    """The learners' sections, in which networks and schedules may be code in files."""
    changed = {}
    for name in specs():
        options = getattr(config, name)
        code = {key: _absolute(value) for key, value in options if isinstance(value, str) and ".py:" in value}
        if code:
            changed[name] = options.model_copy(update=code)
    return changed
