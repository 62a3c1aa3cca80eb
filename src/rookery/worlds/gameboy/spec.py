"""Game Boy games, as rookery knows them by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.worlds.world_spec import WorldOption, WorldSpec

ENV_ID = "rookery/GameBoy-v0"


def run_name(options: Mapping[str, Any]) -> str:
    """World, profile (of one in a file, the file's name) and kind of observation.

    >>> run_name({"profile": "games/My Game.toml", "observation": "pixels"})
    'gameboy-My-Game-pixels'
    """
    profile = re.sub(r"[^\w.+=-]+", "-", Path(str(options.get("profile", "meadow"))).stem)
    return "-".join(map(str, filter(None, ["gameboy", profile, options.get("observation")])))


GAME_BOY = WorldSpec(
    name="gameboy",
    source=ENV_ID,
    envs={ENV_ID: "rookery.worlds.gameboy.env:GameBoyEnv"},
    is_kernel=False,
    extra="gameboy",
    recipes="rookery.worlds.gameboy.recipes:RECIPES",
    options=(
        WorldOption(
            "profile",
            "NAME",
            "which game: meadow, oracle_of_seasons, or a profile of your own, as a .toml file (meadow)",
            is_file=True,
        ),
        WorldOption("rom", "PATH", "the game's ROM, which you own; if omitted, one in ROOKERY_ROM_DIR", is_file=True),
        WorldOption("observation", "WHAT", "memory, pixels or both (as the profile says)"),
    ),
    episode_length_option="episode_length",
    run_name=run_name,
    commands="rookery.apps.gameboy_verbs",
)
