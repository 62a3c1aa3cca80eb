"""Air hockey, as rookery knows it by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.worlds.world_spec import PlayableGame, ShippedAgent, TwoPlayerForm, WorldSpec


def with_player_two(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the game against a script as those of the two-player game: the opponent is its second player.

    >>> with_player_two({"opponent": "strong", "mode": "shooting"})
    {'mode': 'shooting', 'player_two': 'strong'}
    """
    rest = {key: value for key, value in options.items() if key not in ("opponent", "player_two")}
    return {**rest, "player_two": options.get("player_two", options.get("opponent", "weak"))}


HOCKEY = WorldSpec(
    name="hockey",
    source="rookery/HockeyOne-v0",
    kernels={
        "rookery/HockeyOne-v0": "rookery.worlds.hockey.world:hockey_one",
        "rookery/Hockey-v0": "rookery.worlds.hockey.world:hockey",
    },
    is_kernel=True,
    extra="kernel",
    recipes="rookery.worlds.hockey.recipes:RECIPES",
    discrete_options={"discrete": True},
    kernel_class="rookery.worlds.hockey.world:HockeyWorld",
    viewer="rookery.worlds.hockey.viewer:HockeyViewer",
    two_player=TwoPlayerForm(
        source="rookery/Hockey-v0",
        from_one_player=with_player_two,
        unused_options=("rows",),
        discrete_options=("discrete", "action_fineness"),
        player_spaces="rookery.worlds.hockey.world:player_spaces",
        action_table="rookery.worlds.hockey.world:action_table",
        usual_opponent="strong",
    ),
    agent=ShippedAgent(folder="rookery:agents/hockey", title="rookery's agent", aliases=("agent",)),
    game=PlayableGame(
        function="rookery.worlds.hockey.play:play",
        players=("human", "weak", "strong"),
        modes=("normal", "shooting", "defense"),
        keys="WASD or the arrows move your racket, Q/E or comma/period turn it, space or Enter shoots the puck that "
        "you hold, R restarts and Esc quits. Two people share the keyboard: WASD, Q/E and space are the left player's, "
        "arrows, comma/period and Enter the right one's.",
    ),
    examples=(
        "rookery train hockey --learner sac --set sac.hidden=[128,128] --set world_options.opponent=strong",
        "rookery train hockey --opponents self,strong --steps 1e7",
    ),
    has_curriculum_json=True,
)
