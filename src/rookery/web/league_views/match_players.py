"""Which players of a tournament can play again, and what the session of a replay gets about them."""

from __future__ import annotations

from typing import Any

from rookery.training.league.tournament_report import IN_RUN, LoggedPlayer
from rookery.training.players import file_player
from rookery.training.resolve.seats import SCRIPTS
from rookery.training.storage.run_dir import RunDir
from rookery.web.run_folders import NotShown, RunFolders, checked_name
from rookery.worlds import registry


def can_replay(player: LoggedPlayer) -> bool:
    """Whether it is known where the player comes from. A Python file may have changed, and is never run for a page."""
    kind, _, name = (player.source or "").partition(":")
    if kind == "script":
        return name in SCRIPTS
    if kind == "shipped":
        return name in registry.agents()
    return player.source == file_player.NAME or (player.run is not None and bool(IN_RUN.fullmatch(player.source or "")))


def replay_player(player: LoggedPlayer, place: str, folders: RunFolders) -> dict[str, Any]:
    """Name, kind and place of a player, for the process that plays it. An agent must have the weights that it had."""
    if not can_replay(player):
        raise NotShown(f"{player.name} cannot play again: it is not known where it came from")
    assert player.source is not None
    kind, _, name = player.source.partition(":")
    if name or kind == file_player.NAME:
        return {"name": player.name, "kind": kind, "value": name or kind}
    assert player.run is not None
    from rookery.training.league.tournament import weights_hash  # late: it imports torch, which lists do not need

    path = _agent_folder(player, place, folders)
    if weights_hash(path) != player.sha256 or player.sha256 is None:
        raise NotShown(f"{player.name} is not the agent any more that played: its weights have changed")
    return {"name": player.name, "kind": "agent", "value": str(path)}


def _agent_folder(player: LoggedPlayer, place: str, folders: RunFolders) -> Any:
    """The folder of an agent: in the place of the league, else in any other."""
    found = IN_RUN.fullmatch(player.source or "")
    assert found is not None and player.run is not None
    part, name = found.groups()
    for where in dict.fromkeys((place, *folders.places)):
        try:
            run = RunDir(folders.find(where, checked_name(player.run)))
            if part == "league" or not run.keeps_checkpoints_outside:
                return folders.file(where, player.run, part, name, "manifest.json").parent
        except NotShown:
            continue
    raise NotShown(f"{player.name} cannot play again: {part}/{name} of {player.run} is not there any more")
