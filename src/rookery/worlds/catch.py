"""Catch: a kernel world whose observation is a stack of four frames of 84 x 84 pixels.

A frame of 7,056 pixels is too much to draw in every step, by one thread for each env. But the ball flies straight, so
that its four pictures of the last four steps are one fixed pattern, and moving a pattern over a screen that lies row
after row in memory means copying it from another place. So the upper part of the screen is a window of a table, which
the engine copies fast on every device, and only the row of the paddle is drawn.
"""

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import integer
from rookery.kernel.tables import TableWindow
from rookery.kernel.world import KernelWorld

SIZE = 84  # pixels, of each side of the screen
FRAMES = 4  # the newest first
BALL = 5  # pixels, of each side of the ball
FALL = 2  # pixels a step
SKY = SIZE - 1  # rows above the paddle
LANDING = SKY - BALL  # the ball's row when it reaches the paddle
FLIGHT = LANDING // FALL  # steps from the top to the paddle
DRIFTS = 3  # the ball drifts by -1, 0 or 1 pixel a step
PADDLE = 12  # pixels wide
ROOM = SIZE - PADDLE  # the paddle's places are 0 to ROOM
STRIP = (2 * SKY + BALL) * SIZE  # pixels of a table's part for one drift
WHITE = 255


def ball_strips() -> np.ndarray:
    """For each drift, four pictures of a ball on an empty screen of twice the height, as one row of bytes.

    The newest picture is `SKY` rows below the top; the older ones are where the ball was before.
    """
    strips = np.zeros((DRIFTS, 2 * SKY + BALL, SIZE, FRAMES), np.uint8)
    for drift in range(DRIFTS):
        flat = strips[drift].reshape(-1, FRAMES)
        for age in range(FRAMES):
            corner = (SKY - FALL * age) * SIZE - (drift - 1) * age
            for row in range(BALL):
                flat[corner + row * SIZE : corner + row * SIZE + BALL, age] = WHITE
    return strips.reshape(-1)


def drop_ball(state: Any) -> None:
    """A new ball at the top: it stays on the screen for all of its flight, and did before."""
    state.drift = integer(state, -1, 2)
    before, after = (FRAMES - 1) * state.drift, FLIGHT * state.drift
    left, right = max(before, -after, 0), min(SIZE - BALL + before, SIZE - BALL - after, SIZE - BALL)
    state.x = integer(state, left, right + 1)
    state.y = 0


class Catch(KernelWorld):
    """Catch the balls: each is worth 1, and the first that is missed ends the episode.

    Actions: 0 stays, 1 moves the paddle to the left, 2 to the right.
    """

    observation_space = spaces.Box(0, 255, (SIZE, SIZE, FRAMES), np.uint8)
    action_space = spaces.Discrete(3)
    state = {"x": "i8", "y": "i8", "drift": "i8", "paddle": ("i8", (FRAMES,))}
    parameters = {"speed": 3.0}
    tables = {"balls": ball_strips()}
    table_window = TableWindow("balls", at=0, size=SKY * SIZE * FRAMES)
    time_limit = 1_000

    @staticmethod
    def reset(state: Any) -> None:
        place = integer(state, 0, ROOM + 1)
        for age in range(FRAMES):
            state.paddle[age] = place
        drop_ball(state)

    @staticmethod
    def step(state: Any, action: Any, params: Any) -> Any:
        for age in range(FRAMES - 1, 0, -1):
            state.paddle[age] = state.paddle[age - 1]
        move = int(params.speed) * ((action == 2) - (action == 1))
        state.paddle[0] = min(max(state.paddle[0] + move, 0), ROOM)
        state.x += state.drift
        state.y += FALL
        if state.y < LANDING:
            return 0.0, False
        caught = state.x + BALL > state.paddle[0] and state.x < state.paddle[0] + PADDLE
        if not caught:
            return 0.0, True
        drop_ball(state)
        return 1.0, False

    @staticmethod
    def window_start(state: Any) -> Any:
        pixel = SKY * SIZE - state.y * SIZE - state.x
        return ((state.drift + 1) * STRIP + pixel) * FRAMES

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        for column in range(SIZE):
            for age in range(FRAMES):
                place = state.paddle[age]
                out[SKY, column, age] = WHITE if place <= column and column < place + PADDLE else 0
