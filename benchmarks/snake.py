"""PPO on a small image, Snake on 10 x 10 cells, by default choices: `make bench-snake`, or

    python benchmarks/snake.py [--seconds 120] [--seeds 1] [--only kernel greys python] [--json FILE]

Each row trains for two minutes and then plays 100 episodes with the agent. Food counts 1 and the end of the snake -1:
a mean return of 1 is two pieces of food and more. The image has three planes: body, head and food. Rows: the game as a
kernel world, with greys instead of planes, and as a plain Gymnasium env in Python.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import rookery
from rookery.kernel.random import integer
from rookery.kernel.world import KernelWorld

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import measured, parser_for, report

SIDE = 10
CELLS = SIDE * SIDE
HUNGER = 100  # steps without food after which an episode is truncated
WANTED = 1.0  # mean return
SECONDS = 120.0
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


def place_food(state: Any) -> None:
    """Put food on a free cell."""
    cell = integer(state, 0, CELLS)
    while state.taken[cell] != 0:
        cell = (cell + 1) % CELLS
    state.food = cell


class Snake(KernelWorld):
    """The four directions; a step back is a step ahead."""

    observation_space = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    action_space = spaces.Discrete(4)
    state = {
        "cells": ("i2", (CELLS,)),  # a ring of the snake's cells, oldest first
        "taken": ("i1", (CELLS,)),
        "first": "i8",
        "length": "i8",
        "heading": "i8",
        "food": "i8",
        "hunger": "i8",
    }
    info = {"food_eaten": "i8"}

    @staticmethod
    def reset(state: Any) -> None:
        cell = SIDE * integer(state, 2, SIDE - 2) + integer(state, 2, SIDE - 2)
        state.cells[0], state.taken[cell], state.length = cell, 1, 1
        state.heading = integer(state, 0, 4)
        place_food(state)

    @staticmethod
    def step(state: Any, action: Any, info: Any) -> Any:
        if state.length == 1 or action != (state.heading + 2) % 4:
            state.heading = action
        head = state.cells[(state.first + state.length - 1) % CELLS]
        row, column = head // SIDE + MOVES[state.heading][0], head % SIDE + MOVES[state.heading][1]
        state.hunger += 1
        info.food_eaten = state.length - 1
        if row < 0 or row >= SIDE or column < 0 or column >= SIDE:
            return -1.0, True, False
        cell, reward = SIDE * row + column, 0.0
        if cell == state.food:
            reward, state.hunger = 1.0, 0
        else:
            state.taken[state.cells[state.first]] = 0
            state.first = (state.first + 1) % CELLS
            state.length -= 1
        if state.taken[cell] != 0:
            return -1.0, True, False
        state.cells[(state.first + state.length) % CELLS] = cell
        state.taken[cell] = 1
        state.length += 1
        info.food_eaten = state.length - 1
        if reward > 0.0:
            if state.length == CELLS:
                return reward, True, False
            place_food(state)
        return reward, False, state.hunger >= HUNGER

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        head = state.cells[(state.first + state.length - 1) % CELLS]
        for cell in range(CELLS):
            row, column = cell // SIDE, cell % SIDE
            out[row, column, 0] = 255 * state.taken[cell]
            out[row, column, 1] = 255 if cell == head else 0
            out[row, column, 2] = 255 if cell == state.food else 0


class GreySnake(Snake):
    """The same with one plane of greys: 85 the body, 170 the head, 255 food."""

    observation_space = spaces.Box(0, 255, (SIDE, SIDE), np.uint8)

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        head = state.cells[(state.first + state.length - 1) % CELLS]
        for cell in range(CELLS):
            grey = 255 if cell == state.food else 170 if cell == head else 85 * state.taken[cell]
            out[cell // SIDE, cell % SIDE] = grey


class SnakeEnv(gym.Env):
    """The same game as people write it in Python."""

    observation_space = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.snake = deque([tuple(self.np_random.integers(2, SIDE - 2, 2).tolist())])
        self.heading, self.hunger = int(self.np_random.integers(4)), 0
        self._place_food()
        return self._image(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if len(self.snake) == 1 or action != (self.heading + 2) % 4:
            self.heading = int(action)
        (row, column), (down, right) = self.snake[-1], MOVES[self.heading]
        head, eats = (row + down, column + right), False
        self.hunger += 1
        if head == self.food:
            eats, self.hunger = True, 0
        else:
            self.snake.popleft()
        dead = not (0 <= head[0] < SIDE and 0 <= head[1] < SIDE) or head in self.snake
        if not dead:
            self.snake.append(head)
            if eats and len(self.snake) < CELLS:
                self._place_food()
        won = len(self.snake) == CELLS
        return self._image(), -1.0 if dead else float(eats), dead or won, self.hunger >= HUNGER, {}

    def _place_food(self) -> None:
        free = [(k // SIDE, k % SIDE) for k in range(CELLS) if (k // SIDE, k % SIDE) not in self.snake]
        self.food = free[int(self.np_random.integers(len(free)))]

    def _image(self) -> np.ndarray:
        image = np.zeros((SIDE, SIDE, 3), np.uint8)
        for cell in self.snake:
            image[(*cell, 0)] = 255
        if self.snake:
            image[(*self.snake[-1], 1)] = 255
        image[(*self.food, 2)] = 255
        return image


class StopAfter(rookery.Callback):
    """Ends the run after some seconds of training."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._began = seconds, 0.0

    def on_start(self, run: rookery.RunControl) -> None:
        self._began = time.monotonic()

    def on_update(self, run: rookery.RunControl, metrics: Any) -> None:
        if time.monotonic() - self._began > self._seconds:
            run.stop("time is up")


WORLDS: dict[str, type] = {"kernel": Snake, "greys": GreySnake, "python": SnakeEnv}


def train_for(world: type, seconds: float, seed: int, folder: str) -> tuple[float, float]:
    """Steps per second, and the mean return of 100 episodes after the training."""
    result = rookery.train(
        world, learner="ppo", steps=10_000_000, seed=seed, runs_dir=folder, callbacks=[StopAfter(seconds)],
        monitor={"panel": False, "plot": False, "tensorboard": False},
        evaluation={"every": 10**9, "episodes": 100, "max_episodes": 100},
    )  # fmt: skip
    return result.steps_per_second, float(result.evaluation or 0.0)


def snake_rows(name: str, seconds: float, seeds: int) -> list[Row]:
    """The mean return over the seeds."""
    with tempfile.TemporaryDirectory() as folder:
        rates, returns = zip(*(train_for(WORLDS[name], seconds, seed, folder) for seed in range(seeds)), strict=True)
    each = ", ".join(f"{value:.2f}" for value in returns)
    title = f"Snake {SIDE}x{SIDE}, {name}: mean return after {seconds:.0f} s"
    return [Row(title, f"{np.mean(rates):,.0f} steps/s", f"by seed: {each}", float(np.mean(returns)), WANTED, unit="")]


def main() -> int:
    """Measure and print."""
    parser = parser_for(__doc__, WORLDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of training (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=1, help="how many runs a row (default: %(default)s)")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    rows = {name: partial(snake_rows, name, args.seconds, args.seeds) for name in WORLDS}
    return report(measured(rows, args.only), "rookery on small images", args.json)


if __name__ == "__main__":
    sys.exit(main())
