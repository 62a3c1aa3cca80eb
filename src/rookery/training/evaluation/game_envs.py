"""The envs of games between two players, in any two-player world (see `training.resolve.seats`)."""

from __future__ import annotations

from typing import Any

from rookery.engine.engine import Engine
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import make_vec
from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.training.players.agents import Player, Script
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.seats import seat_of
from rookery.training.resolve.world_choice import World, not_for_two_players


class GameEnvs:
    """Envs of a two-player world, kept between matches."""

    def __init__(self, duel: World, batch: int = 1, backend: str = "serial", **failure_options: Any) -> None:
        """`duel` is a world as `duel_of` returns it, `batch` the number of games at once. `backend` is that of the envs
        that train: envs that need a process there need one here. `failure_options` are those of `make_vec`."""
        positive_int("batch", batch)
        backend = "kernel" if duel.kernel else "process" if backend == "process" else "serial"
        workers = None if duel.kernel else min(batch, usable_cores()) if backend == "process" else 1
        self.duel = duel
        with explain_option_errors(duel):
            self.envs: Engine = make_vec(
                duel.factory, batch, backend, workers, autoreset_mode="Disabled", copy=False, **failure_options
            )
        seat = seat_of(self.envs.single_observation_space, self.envs.single_action_space)
        if seat is None:
            self.envs.close()
            raise not_for_two_players(duel)
        self.seat = seat
        self.scripted = _has_parameter(self.envs, "player_one") and _has_parameter(self.envs, "player_two")

    def check(self, *players: Player | Script) -> None:
        """Refuse scripted players that the world does not have."""
        for player in players:
            if isinstance(player, Script) and player.parameter != "free" and not self.scripted:
                raise OptionError(
                    f"{self.duel.name} has no script {player.name!r}: it takes parameters player_one and player_two"
                )

    def close(self) -> None:
        """Close the envs."""
        self.envs.close()


def _has_parameter(envs: Engine, parameter: str) -> bool:
    """Whether the envs have a parameter of this name."""
    try:
        envs.call_some([0], parameter)
    except AttributeError:
        return False
    return True
