"""One step of the bodies, in the order of Box2D: contacts, velocities, positions, then impacts on the way."""

from typing import Any

from rookery.worlds.hockey.bodies import accelerate, mark_start, move
from rookery.worlds.hockey.contacts import LOWEST_BIT
from rookery.worlds.hockey.field import DYNAMIC, SLOP, TIME_STEP
from rookery.worlds.hockey.solver import island_of, prepare_contact, solve_positions, solve_velocities
from rookery.worlds.hockey.sweep import sweep

POSITION_ROUNDS = 30  # Box2D makes up to 60; a kept puck, the deepest overlap there is, needs 17
POSITION_SHARE = 0.2
ALLOWED_OVERLAP = 3.0 * SLOP


def move_bodies(scratch: Any) -> None:
    """Moves everything for one step; the contacts at its start have been found before."""
    for body in range(DYNAMIC):
        mark_start(scratch, body)
        accelerate(scratch, body)
    if scratch.contacts > 0:
        solve_all_velocities(scratch)
    for body in range(DYNAMIC):
        move(scratch, body, TIME_STEP)
    islands = touching_islands(scratch)
    while islands != 0:
        solve_positions(scratch, LOWEST_BIT[islands], POSITION_ROUNDS, POSITION_SHARE, ALLOWED_OVERLAP)
        islands &= islands - 1
    sweep(scratch)


def solve_all_velocities(scratch: Any) -> None:
    """Solves the contacts of every island."""
    for contact in range(scratch.contacts):
        prepare_contact(scratch, contact)
    islands = touching_islands(scratch)
    while islands != 0:
        solve_velocities(scratch, LOWEST_BIT[islands])
        islands &= islands - 1


def touching_islands(scratch: Any) -> int:
    """A bit for each island in which anything touches."""
    islands = 0
    for contact in range(scratch.contacts):
        islands |= 1 << island_of(scratch, contact)
    return islands
