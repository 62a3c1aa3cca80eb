"""The game: starts, steps, catches, goals, rewards, what players see, and the scripted opponent."""

import math
from typing import Any

from rookery.kernel.random import uniform
from rookery.worlds.hockey.bodies import cos_sin, load_bodies, store_bodies
from rookery.worlds.hockey.contacts import find_contacts, goal_reached
from rookery.worlds.hockey.field import CENTRE_X, CENTRE_Y, PIXELS, PUCK, RACKETS
from rookery.worlds.hockey.free import (
    FREE,
    MOST_ANGLE,
    PUCK_TOP_SPEED,
    SHOT_SPEED,
    drive_puck,
    drive_racket,
    keep_puck,
    play_freely,
    within_one,
)
from rookery.worlds.hockey.physics import move_bodies

NORMAL = 0
SHOOTING = 1
DEFENSE = 2
STEPS = (250, 80, 80)  # a game's limit, by mode
KEPT = 15  # steps for which a caught puck is kept
STILL = 0.1  # a puck that leaves a racket faster than this is not caught
GOAL = 10.0
MOST_CLOSENESS = -30.0
LONGEST_WAY = 250.0 / PIXELS


def reset(state: Any, params: Any) -> None:
    """Begins a game."""
    for body in range(3):
        state.x[body], state.y[body], state.angle[body] = CENTRE_X, CENTRE_Y, 0.0
        state.vx[body], state.vy[body], state.spin[body] = 0.0, 0.0, 0.0
    for player in range(RACKETS):
        state.hold[player] = 0
        state.touching[player] = 0
        state.swing[player] = uniform(state, 0.0, params.first_swing)
    state.push_x, state.push_y, state.winner = 0.0, 0.0, 0
    state.x[0], state.x[1] = CENTRE_X - 3.0, CENTRE_X + 3.0
    if params.mode != NORMAL:
        state.x[1] += uniform(state, -10.0 / 3.0, 10.0 / 6.0)
        state.y[1] += uniform(state, -2.0, 2.0)
    if params.mode == DEFENSE:
        shoot_at_goal(state)
    else:
        side = -1.0 if one_starts(state, params) else 1.0
        state.x[PUCK] += side * uniform(state, 1.0, 2.0)
        state.y[PUCK] += uniform(state, -1.0, 1.0)


def one_starts(state: Any, params: Any) -> bool:
    """Whether the puck starts in player 1's half: in a normal game, alternating unless `one_starts` is set."""
    if params.mode == SHOOTING:
        return True
    return params.one_starts == 1 if params.one_starts >= 0 else (state.episode % 2 + state.seed % 2) % 2 == 1


def shoot_at_goal(state: Any) -> None:
    """Puts the puck into player 2's half, to be shot at player 1's goal in the first step."""
    state.x[PUCK] += uniform(state, 0.0, 10.0 / 3.0)
    state.y[PUCK] += 0.8 * uniform(state, -4.0, 4.0)
    dx = -state.x[PUCK]
    dy = CENTRE_Y + 0.6 * uniform(state, -75.0 / PIXELS, 75.0 / PIXELS) - state.y[PUCK]
    distance = math.sqrt(dx * dx + dy * dy)
    state.push_x = SHOT_SPEED * dx / distance
    state.push_y = SHOT_SPEED * dy / distance


def play(state: Any, params: Any, scratch: Any) -> None:
    """One step with the actions in `scratch.ask`, or those of the script for scripted players."""
    for player in range(RACKETS):
        script = params.player_one if player == 0 else params.player_two
        if script != 0:
            first = 4 * player
            ask_x, ask_y, ask_turn, shoot = scripted_ask(state, player, script)
            scratch.ask[first], scratch.ask[first + 1] = ask_x, ask_y
            scratch.ask[first + 2], scratch.ask[first + 3] = ask_turn, shoot
    ask = scratch.ask
    if play_freely(state, ask[0], ask[1], ask[2], ask[4], ask[5], ask[6]) != FREE:
        play_fully(state, params, scratch)


def play_if_free(
    state: Any, params: Any, x1: float, y1: float, turn1: float, x2: float, y2: float, turn2: float
) -> int:
    """One step with the players' actions or those of their scripts, if it is FREE; otherwise changes nothing."""
    draws, swing1, swing2 = state.draws, state.swing[0], state.swing[1]
    if params.player_one != 0:
        x1, y1, turn1, _ = scripted_ask(state, 0, params.player_one)
    if params.player_two != 0:
        x2, y2, turn2, _ = scripted_ask(state, 1, params.player_two)
    kind = play_freely(state, x1, y1, turn1, x2, y2, turn2)
    if kind != FREE:
        state.draws, state.swing[0], state.swing[1] = draws, swing1, swing2
    return kind


def play_fully(state: Any, params: Any, scratch: Any) -> None:
    """One step in which bodies may meet."""
    load_bodies(state, scratch)
    for player in range(RACKETS):
        drive_racket(scratch, player)
    drive_puck(state, scratch)
    find_touches(state, params, scratch)
    state.winner = goal_reached(scratch)
    move_bodies(scratch)
    store_bodies(state, scratch)


def find_touches(state: Any, params: Any, scratch: Any) -> None:
    """Moves a held puck with its racket and finds all contacts; a racket may catch a puck that it touches."""
    for player in range(RACKETS):
        if params.keep_mode:
            keep_puck(state, scratch, player)
        else:
            state.hold[player] = 0  # let go, if it was held when the mode was changed
    find_contacts(scratch)
    for player in range(RACKETS):
        if params.keep_mode and scratch.touching[player] > state.touching[player]:
            catch(state, scratch, player)
        state.touching[player] = scratch.touching[player]


def catch(state: Any, scratch: Any, player: int) -> None:
    """A player catches a puck that its racket has just touched, unless the puck is leaving."""
    leaving = scratch.vx[PUCK] if player == 0 else -scratch.vx[PUCK]
    if leaving < STILL and state.hold[player] == 0:
        state.hold[player] = KEPT


def write_info(state: Any, params: Any, info: Any, player: int) -> float:
    """Fills a player's infos and returns the player's reward for the step just made."""
    forward = 1.0 if player == 0 else -1.0
    steps = STEPS[params.mode]
    speed = forward * state.vx[PUCK]
    closeness = 0.0
    if forward * (state.x[PUCK] - CENTRE_X) < 0.0 and speed <= 0.0:
        dx, dy = state.x[player] - state.x[PUCK], state.y[player] - state.y[PUCK]
        closeness = MOST_CLOSENESS * math.sqrt(dx * dx + dy * dy) / (0.5 * LONGEST_WAY * steps)
    won = state.winner if player == 0 else -state.winner
    info.winner = won
    info.reward_closeness_to_puck = closeness
    info.reward_touch_puck = 1.0 if state.hold[player] == KEPT else 0.0
    info.reward_puck_direction = speed / (PUCK_TOP_SPEED * steps)
    return GOAL * won + closeness


def observe(state: Any, out: Any, player: int) -> None:
    """Writes a player's observation, 18 numbers, seen as if the player were on the left."""
    forward = 1.0 if player == 0 else -1.0
    for place in range(2):
        body = place if player == 0 else 1 - place
        first = 6 * place
        out[first] = forward * (state.x[body] - CENTRE_X)
        out[first + 1] = forward * (state.y[body] - CENTRE_Y)
        out[first + 2] = state.angle[body]
        out[first + 3] = forward * state.vx[body]
        out[first + 4] = forward * state.vy[body]
        out[first + 5] = state.spin[body]
        out[16 + place] = state.hold[body]
    out[12] = forward * (state.x[PUCK] - CENTRE_X)
    out[13] = forward * (state.y[PUCK] - CENTRE_Y)
    out[14] = forward * state.vx[PUCK]
    out[15] = forward * state.vy[PUCK]


def discrete_action(index: int, fineness: int) -> tuple[float, float, float, float]:
    """The action of a number: 0 does nothing; then - and + in increasing strength for x, y and angle; last, shoot.

    >>> discrete_action(1, 2), discrete_action(7, 2), discrete_action(1, 3)
    ((-1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (-0.5, 0.0, 0.0, 0.0))
    """
    per_axis = 2 * (fineness - 1)
    if index == 0:
        return 0.0, 0.0, 0.0, 0.0
    if index > 3 * per_axis:
        return 0.0, 0.0, 0.0, 1.0
    axis, rank = (index - 1) // per_axis, (index - 1) % per_axis
    strength = (rank // 2 + 1) / (fineness - 1) * (1.0 if rank % 2 else -1.0)
    return (strength if axis == 0 else 0.0), (strength if axis == 1 else 0.0), (strength if axis == 2 else 0.0), 0.0


STRONG = 2
GAIN_STRONG = 10.0
GAIN_WEAK = 0.5
BRAKE = 0.5
COMING = 0.5  # a puck slower than this, going away, is chased too
BEHIND = 0.5
GUARD_X = -210.0 / PIXELS
SHOOT_BELOW = 7


def scripted_ask(state: Any, player: int, strength: int) -> tuple[float, float, float, float]:
    """The action of a scripted player; advances the swing of its racket."""
    forward = 1.0 if player == 0 else -1.0
    gain = GAIN_STRONG if strength == STRONG else GAIN_WEAK
    state.swing[player] += uniform(state, 0.0, 0.2)
    x, y = forward * (state.x[player] - CENTRE_X), forward * (state.y[player] - CENTRE_Y)
    target_x, target_y = target(state, forward, x, y)
    _, sin = cos_sin(state.swing[player])
    target_angle = MOST_ANGLE * sin
    return (
        steer(gain, target_x - x, forward * state.vx[player], 0.1),
        steer(0.2 * gain, target_y - y, forward * state.vy[player], 0.1),
        steer(0.5 * gain, target_angle - state.angle[player], state.spin[player], 1.0),
        1.0 if 0 < state.hold[player] < SHOOT_BELOW else 0.0,
    )


def target(state: Any, forward: float, x: float, y: float) -> tuple[float, float]:
    """Where a scripted player at (x, y) wants to be, seen from its own side."""
    puck_x, puck_y = forward * (state.x[PUCK] - CENTRE_X), forward * (state.y[PUCK] - CENTRE_Y)
    if forward * state.vx[PUCK] >= COMING:
        return GUARD_X, 0.0
    if x < puck_x and abs(y - puck_y) < BEHIND:
        distance = math.sqrt((x - puck_x) * (x - puck_x) + (y - puck_y) * (y - puck_y))
        return puck_x + 0.2, puck_y + 0.1 * forward * state.vy[PUCK] * distance
    return GUARD_X, puck_y


def steer(gain: float, error: float, speed: float, brake_within: float) -> float:
    """PD control of one axis; it brakes only if it would be there soon."""
    # Compared without dividing, as the speed may be exactly -0.01.
    braking = BRAKE * speed if abs(error) < brake_within * abs(speed + 0.01) else 0.0
    return within_one(gain * error - braking)
