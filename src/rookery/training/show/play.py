"""`rookery play`: a game in a window, or any world by the keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.errors import OptionError
from rookery.lazy import load_object
from rookery.training.players.file_player import find_opponent
from rookery.worlds import registry


def play(
    world: str,
    player: str | None = None,
    opponent: str | None = None,
    *,
    mode: str | None = None,
    fps: int | None = None,
    seed: int | None = None,
    games: int | None = None,
    record: str | Path | None = None,
    runs_dir: str | Path = "runs",
) -> Any:
    """Play a game yourself, or watch others play, in a window; returns the score.

    Args:
        world: A game that comes with rookery; any other world is played by the keyboard, alone.
        player: The left player: "human", a script ("weak", "strong"), "agent" (the one that comes with rookery), a run,
            a checkpoint's folder, or "my_agent.py:Agent"; if omitted, you.
        opponent: The right player; if omitted, the agent that comes with rookery.
        mode: What is played, such as "normal"; if omitted, the game's first mode.
        fps: Steps per second; if omitted, the world's own number.
        seed: Of the games; if omitted, random.
        games: Stop after this many; if omitted, play until Esc.
        record: A .gif file for the last 30 seconds.
        runs_dir: The folder of the runs.
    """
    game = registry.games().get(world)
    out = None if record is None else str(record)
    if game is None:
        for name, value in {"player": player, "opponent": opponent, "mode": mode}.items():
            if value is not None:
                raise OptionError(f"{world} is played alone: --{name} is for {' and '.join(registry.games())}")
        from rookery.training.resolve.world_choice import find  # they import torch, which a game does not need
        from rookery.training.show.by_hand import play_by_hand

        return play_by_hand(find(world), fps, seed, games, out)
    left, right = (
        who if who in game.players else find_opponent(who, runs_dir, registry.get(world))
        for who in (player or "human", opponent or "agent")
    )
    return load_object(game.function)(left, right, mode or game.modes[0], fps or 50, seed, games, out)
