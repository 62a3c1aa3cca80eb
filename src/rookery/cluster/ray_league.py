"""The games of a tournament as tasks of Ray: what `rookery league --games N --on ray` means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rookery.cluster.ray_transport import allow_address, load_ray, open_ray
from rookery.cluster.remote_tournament import GamePart, RemoteTournament, play_part
from rookery.training.evaluation.win_record import GameResults
from rookery.training.players.agents import Player, Script
from rookery.training.resolve.world_choice import World

RETRIES = 5  # of a part whose node is lost


@contextmanager
def open_ray_tournament(address: str | None) -> Iterator[RemoteTournament]:
    """On the cluster at this address, or on one that is started here and ends with the tournament."""
    allow_address(address)
    with open_ray(address):
        yield RemoteTournament(play_on_ray)


def play_on_ray(
    duel: World, players: Sequence[Player | Script], parts: Sequence[GamePart], seed: int, backend: str
) -> Iterator[tuple[GamePart, GameResults]]:
    """The results of parts, as they come. Parts of a node that is lost are played again elsewhere, by Ray."""
    ray = load_ray()
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(play_part)
    stored = [ray.put(player) for player in players]  # each travels to a node once
    world = replace(duel)  # without what it keeps at hand
    code = [name for name in (duel.source, *duel.wrappers) if isinstance(name, str) and ".py:" in name]
    part_of: dict[Any, GamePart] = {}
    for part in parts:
        one, two = (stored[k] for k in part.pair)
        part_of[task.remote(world, one, two, part, seed, backend, code)] = part
    while part_of:
        done, _ = ray.wait(list(part_of), num_returns=1)
        for call in done:
            try:
                yield part_of.pop(call), ray.get(call)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, Exception) else error) from None
