"""Steps in which nothing touches anything: most of them. They need no working memory, and a fraction of the time.

Bit for bit what the general way does (physics.py), which also takes all that is not clearly free.
"""

import math
from typing import Any

from rookery.worlds.hockey.bodies import LARGEST_MOVE, LARGEST_TURN, accelerated
from rookery.worlds.hockey.contacts import MARGIN, PUCK_NEAR, RACKET_NEAR, is_free
from rookery.worlds.hockey.field import INVERSE_INERTIA, INVERSE_MASS, ORIGIN_AHEAD, PUCK, REACH, TIME_STEP
from rookery.worlds.hockey.forces import puck_damping, push, twist

Moved = tuple[bool, float, float, float, float, float, float, float, float]


def play_freely(state: Any, x1: float, y1: float, turn1: float, x2: float, y2: float, turn2: float) -> bool:
    """One step with what the two players ask for; returns False, having changed nothing, if anything may be met."""
    if state.hold[0] > 0 or state.hold[1] > 0 or state.push_x != 0.0 or state.push_y != 0.0:
        return False
    free, px, py, pvx, pvy = moved_puck(state)
    if not free:
        return False
    free, at_x1, at_y1, nx1, ny1, angle1, vx1, vy1, spin1 = moved_racket(state, 0, x1, y1, turn1)
    if not free or near(at_x1, at_y1, state.x[PUCK], state.y[PUCK], PUCK_NEAR):
        return False
    free, at_x2, at_y2, nx2, ny2, angle2, vx2, vy2, spin2 = moved_racket(state, 1, x2, y2, turn2)
    if not free or near(at_x2, at_y2, state.x[PUCK], state.y[PUCK], PUCK_NEAR):
        return False
    if near(at_x1, at_y1, at_x2, at_y2, RACKET_NEAR):
        return False
    put(state, 0, nx1, ny1, angle1, vx1, vy1, spin1)
    put(state, 1, nx2, ny2, angle2, vx2, vy2, spin2)
    put(state, PUCK, px, py, 0.0, pvx, pvy, state.spin[PUCK])
    state.touching[0] = 0
    state.touching[1] = 0
    state.winner = 0
    return True


def put(state: Any, body: int, x: float, y: float, angle: float, vx: float, vy: float, spin: float) -> None:
    """Puts a body somewhere."""
    state.x[body] = x
    state.y[body] = y
    state.angle[body] = angle
    state.vx[body] = vx
    state.vy[body] = vy
    state.spin[body] = spin


def near(x1: float, y1: float, x2: float, y2: float, distance: float) -> bool:
    """Whether two places are within a distance."""
    return (x2 - x1) * (x2 - x1) + (y2 - y1) * (y2 - y1) <= distance * distance


def moved_puck(state: Any) -> tuple[bool, float, float, float, float]:
    """(whether nothing static is near, x, y, velocity x, y) of the puck after the step."""
    x, y, vx, vy = state.x[PUCK], state.y[PUCK], state.vx[PUCK], state.vy[PUCK]
    damping = puck_damping(vx, vy)
    vx = accelerated(vx, 0.0, INVERSE_MASS[PUCK], damping)
    vy = accelerated(vy, 0.0, INVERSE_MASS[PUCK], damping)
    new_x, new_y = x + TIME_STEP * vx, y + TIME_STEP * vy
    return path_is_free(PUCK, x, y, new_x, new_y, vx, vy), new_x, new_y, vx, vy


def moved_racket(state: Any, player: int, ask_x: float, ask_y: float, ask_turn: float) -> Moved:
    """(whether nothing static is near, centre x, y before, origin x, y, angle, velocity x, y, spin after the step)."""
    angle, spin, ahead = state.angle[player], state.spin[player], ORIGIN_AHEAD[player]
    cos, sin = math.cos(angle), math.sin(angle)
    x, y = state.x[player] - cos * ahead, state.y[player] - sin * ahead
    vx, vy, fx, fy, damping = push(
        player, x + cos * ahead, y + sin * ahead, state.vx[player], state.vy[player], ask_x, ask_y
    )
    vx = accelerated(vx, fx, INVERSE_MASS[player], damping)
    vy = accelerated(vy, fy, INVERSE_MASS[player], damping)
    torque, damping = twist(angle, spin, ask_turn)
    spin = accelerated(spin, torque, INVERSE_INERTIA[player], damping)
    new_x, new_y, new_angle = x + TIME_STEP * vx, y + TIME_STEP * vy, angle + TIME_STEP * spin
    free = path_is_free(player, x, y, new_x, new_y, vx, vy) and abs(TIME_STEP * spin) <= LARGEST_TURN
    origin_x, origin_y = new_x + math.cos(new_angle) * ahead, new_y + math.sin(new_angle) * ahead
    return free, x, y, origin_x, origin_y, new_angle, vx, vy, spin


def path_is_free(body: int, x: float, y: float, new_x: float, new_y: float, vx: float, vy: float) -> bool:
    """Whether a body's way in this step is clear of everything static, and not so long that it would be cut."""
    reach = REACH[body] + MARGIN
    clear = is_free(min(x, new_x) - reach, max(x, new_x) + reach, min(y, new_y) - reach, max(y, new_y) + reach)
    return clear and TIME_STEP * TIME_STEP * (vx * vx + vy * vy) < 0.99 * LARGEST_MOVE * LARGEST_MOVE
