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


def training_options(options: Mapping[str, Any], steps: int, num_envs: int) -> dict[str, Any]:
    """The options of the guide, which envs that evaluate do not have. It fades out over the run.

    >>> training_options({"profile": "meadow", "guide": "mine.py:Guide"}, 1000, 4)
    {'guide': 'mine.py:Guide', 'guide_fade': 250}
    """
    given = {name: value for name, value in options.items() if name == "guide" or name.startswith("guide_")}
    return {**given, "guide_fade": given.get("guide_fade") or max(1, steps // num_envs)} if "guide" in given else given


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
        WorldOption(
            "guide",
            "FILE:NAME",
            "what gives hints during training: my_file.py:Guide, openai, or the hints.jsonl of a run",
            is_file=True,
            connects=("openai",),
        ),
    ),
    training_options=training_options,
    episode_length_option="episode_length",
    run_name=run_name,
    commands="rookery.apps.gameboy_verbs",
)
