"""One step of the bodies, in the order of Box2D: contacts, velocities, positions, then impacts on the way."""

from typing import Any

from rookery.worlds.hockey.bodies import accelerate, mark_start, move
from rookery.worlds.hockey.field import DYNAMIC, SLOP, TIME_STEP
from rookery.worlds.hockey.solver import prepare_contact, solve_positions, solve_velocities
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
    if scratch.contacts > 0:
        for island in range(DYNAMIC):
            solve_positions(scratch, island, POSITION_ROUNDS, POSITION_SHARE, ALLOWED_OVERLAP)
    for body in range(DYNAMIC):
        sweep(scratch, body)


def solve_all_velocities(scratch: Any) -> None:
    """Solves the contacts of every island."""
    for contact in range(scratch.contacts):
        prepare_contact(scratch, contact)
    for island in range(DYNAMIC):
        solve_velocities(scratch, island)
