"""One step of the bodies, in the order of Box2D: contacts, velocities, positions, then impacts on the way: a body on
its way through something static is stopped where they meet, then moves on."""

from typing import Any

from rookery.worlds.hockey.bodies import accelerate, mark_start, move, turn
from rookery.worlds.hockey.contacts import LOWEST_BIT, find_static_contacts, is_free, near_statics
from rookery.worlds.hockey.field import DYNAMIC, REACH, SKIN, SLOP, STATICS, TIME_STEP
from rookery.worlds.hockey.impact import NEVER, time_of_impact
from rookery.worlds.hockey.solver import island_of, prepare_contact, solve_positions, solve_velocities

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


IMPACTS = 8  # with one polygon in one step
SWEEP_ROUNDS = 20
SWEEP_SHARE = 0.75
SWEEP_OVERLAP = 1.5 * SLOP + 1e-6  # just what one round leaves of an impact: rounding is not to ask for more
END = 1.0 - 1e-6  # an impact this late waits for the next step


def sweep(scratch: Any) -> None:
    """Lets bodies that have moved bounce off whatever static things were on their way."""
    bodies = 0
    for body in range(DYNAMIC):
        if not path_is_free(scratch, body):
            bodies |= 1 << body
    while bodies != 0:
        sweep_body(scratch, LOWEST_BIT[bodies])
        bodies &= bodies - 1


def sweep_body(scratch: Any, body: int) -> None:
    """Lets one body bounce until its step is done."""
    for static in range(STATICS):
        scratch.impacts[static] = 0
    done = 0.0
    while done < 1.0:
        done = next_impact(scratch, body, done)


def path_is_free(scratch: Any, body: int) -> bool:
    """Whether nothing static is anywhere near a body's path."""
    reach = REACH[body] + SKIN
    low_x, high_x, low_y, high_y = path_bounds(scratch, body, reach)
    return is_free(low_x, high_x, low_y, high_y)


def path_bounds(scratch: Any, body: int, reach: float) -> tuple[float, float, float, float]:
    """The rectangle that a body's path covers."""
    x, y = scratch.x[body], scratch.y[body]
    start_x, start_y = scratch.start_x[body], scratch.start_y[body]
    return min(x, start_x) - reach, max(x, start_x) + reach, min(y, start_y) - reach, max(y, start_y) + reach


def next_impact(scratch: Any, body: int, done: float) -> float:
    """Finds a body's next impact, lets it act, and moves the body on; returns which part of the step is done."""
    first, hit = first_impact(scratch, body)
    now = done + (1.0 - done) * first
    if first > 1.0 or now >= END:
        return 1.0
    scratch.impacts[hit] += 1
    end_x, end_y, end_angle = scratch.x[body], scratch.y[body], scratch.angle[body]
    stand_at(scratch, body, first)
    scratch.contacts = 0
    find_static_contacts(scratch, body)
    if scratch.contacts == 0:  # as Box2D, which takes back an impact that turns out not to touch
        scratch.x[body], scratch.y[body], scratch.angle[body] = end_x, end_y, end_angle
        turn(scratch, body)
        return 1.0
    bounce(scratch, body, (1.0 - now) * TIME_STEP)
    return now


def bounce(scratch: Any, body: int, duration: float) -> None:
    """Solves a body's contacts with static things, then moves it on."""
    for other in range(DYNAMIC):
        scratch.island[other] = other
    solve_positions(scratch, body, SWEEP_ROUNDS, SWEEP_SHARE, SWEEP_OVERLAP)
    mark_start(scratch, body)
    for contact in range(scratch.contacts):
        prepare_contact(scratch, contact)
    solve_velocities(scratch, body)
    move(scratch, body, duration)


def stand_at(scratch: Any, body: int, part: float) -> None:
    """Puts a body where it is after a part of its path."""
    scratch.x[body] = scratch.start_x[body] + part * (scratch.x[body] - scratch.start_x[body])
    scratch.y[body] = scratch.start_y[body] + part * (scratch.y[body] - scratch.start_y[body])
    scratch.angle[body] = scratch.start_angle[body] + part * (scratch.angle[body] - scratch.start_angle[body])
    turn(scratch, body)
    mark_start(scratch, body)


def first_impact(scratch: Any, body: int) -> tuple[float, int]:
    """(part of the path until the first impact, with which static polygon)."""
    low_x, high_x, low_y, high_y = path_bounds(scratch, body, REACH[body] + SKIN)
    near = near_statics(body, low_x, high_x, low_y, high_y)
    first, hit = NEVER, 0
    while near != 0:
        static = LOWEST_BIT[near]
        near &= near - 1
        if scratch.impacts[static] <= IMPACTS:
            part = time_of_impact(scratch, body, static)
            if part < first:
                first, hit = part, static
    return first, hit
