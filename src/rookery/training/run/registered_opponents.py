"""Opponents from a registry of agents: a run keeps those that it began with, whoever becomes champion meanwhile."""

from __future__ import annotations

from typing import Any

from rookery.config import Opponent, RunConfig
from rookery.training.storage.registry_folder import PREFIX, find_version


def with_fixed_versions(config: RunConfig) -> RunConfig:
    """Opponents such as "registry:agents@champion" as the folders of the versions that these are now, so that a resumed
    run plays against the same ones."""
    if not _names_versions(config):
        return config
    changes: dict[str, Any] = {
        "opponents": _fixed(config.opponents),
        "phases": [phase.model_copy(update={"opponents": _fixed(phase.opponents)}) for phase in config.phases],
        "evaluation": config.evaluation.model_copy(
            update={"opponents": [_folder(who) for who in config.evaluation.opponents]}
        ),
        "league": config.league.model_copy(update={"baselines": [_folder(who) for who in config.league.baselines]}),
    }
    return config.model_copy(update=changes)


def _names_versions(config: RunConfig) -> bool:
    opponents = [opponent.who for phase in config.all_phases for opponent in phase.opponents]
    return any(who.startswith(PREFIX) for who in (*opponents, *config.evaluation.opponents, *config.league.baselines))


def _fixed(opponents: list[Opponent]) -> list[Opponent]:
    return [opponent.model_copy(update={"who": _folder(opponent.who)}) for opponent in opponents]


def _folder(who: str) -> str:
    version = find_version(who)
    return who if version is None else str(version.resolve())
