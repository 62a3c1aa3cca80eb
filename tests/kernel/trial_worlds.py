"""Worlds as newcomers write them: a board of bytes, prices in single precision, a game with masks, physics, and a
portfolio whose loops run over the length of its arrays."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

from rookery import KernelWorld, Table
from rookery.kernel.random import integer, normal, uniform

SIDE = 10
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]], np.int8)


def free_cell(state, number):
    """Which cell the so-manieth free one is."""
    for cell in range(SIDE * SIDE):
        if state.board[cell // SIDE, cell % SIDE] == 0:
            if number == 0:
                return cell
            number -= 1
    return 0


class Snake(KernelWorld):
    """Eat, grow, and do not bite yourself: a board and a body of bytes."""

    observation_space = spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    action_space = spaces.Discrete(4)
    state = {
        "board": ("u1", (SIDE, SIDE)),
        "body": ("u1", (SIDE * SIDE, 2)),
        "length": "i4",
        "food": ("u1", (2,)),
    }
    time_limit = 120

    @staticmethod
    def reset(state):
        state.length = 1
        state.body[0, 0], state.body[0, 1] = integer(state, 0, SIDE), integer(state, 0, SIDE)
        state.board[state.body[0, 0], state.body[0, 1]] = 1
        cell = free_cell(state, integer(state, 0, SIDE * SIDE - 1))
        state.food[0], state.food[1] = cell // SIDE, cell % SIDE

    @staticmethod
    def step(state, action):
        row, column = state.body[0, 0] + MOVES[action, 0], state.body[0, 1] + MOVES[action, 1]
        before = abs(state.body[0, 0] - state.food[0]) + abs(state.body[0, 1] - state.food[1])
        if row < 0 or row >= SIDE or column < 0 or column >= SIDE or state.board[row, column] == 1:
            return -1.0, True
        tail_row, tail_column = state.body[state.length - 1, 0], state.body[state.length - 1, 1]
        for k in range(state.length - 1, 0, -1):
            state.body[k, 0], state.body[k, 1] = state.body[k - 1, 0], state.body[k - 1, 1]
        state.body[0, 0], state.body[0, 1] = row, column
        state.board[tail_row, tail_column] = 0
        ate = row == state.food[0] and column == state.food[1]
        if ate:
            state.body[state.length, 0], state.body[state.length, 1] = tail_row, tail_column
            state.board[tail_row, tail_column] = 1
            state.length += 1
        state.board[row, column] = 1
        if ate:
            cell = free_cell(state, integer(state, 0, SIDE * SIDE - state.length))
            state.food[0], state.food[1] = cell // SIDE, cell % SIDE
        after = abs(state.body[0, 0] - state.food[0]) + abs(state.body[0, 1] - state.food[1])
        return (1.0 if ate else 0.01 * (before - after)), False

    @staticmethod
    def observe(state, out):
        for row in range(SIDE):
            for column in range(SIDE):
                out[row, column] = 255 * state.board[row, column]
        out[state.food[0], state.food[1]] = 128


def _trading(kind):
    class Trader(KernelWorld):
        """Seven columns of five assets; whatever is not in cash earns what the next bar brings."""

        observation_space = spaces.Box(-np.inf, np.inf, (12,), np.float32)
        action_space = spaces.Discrete(6)
        state = {"bar": "i8", "wealth": kind, "held": "i4", "peak": kind}
        parameters = {"fee": 0.001}
        info = {"wealth": kind, "drawdown": kind}
        tables = {"bars": Table((None, 5, 7), kind)}
        time_limit = 64

        @staticmethod
        def reset(state, tables):
            state.bar = integer(state, 1, tables.bars.shape[0] - 70)
            state.wealth = 1.0
            state.peak = 1.0
            state.held = 5

        @staticmethod
        def step(state, action, params, tables, info):
            if action != state.held:
                state.wealth *= 1.0 - params.fee
                state.held = action
            before = state.wealth
            if action < 5:
                change = tables.bars[state.bar + 1, action, 3] / tables.bars[state.bar, action, 3]
                spread = float(tables.bars[state.bar, action, 1]) - float(tables.bars[state.bar, action, 2])
                state.wealth *= change - 1e-4 * spread
            state.bar += 1
            state.peak = max(state.peak, state.wealth)
            info.wealth = state.wealth
            info.drawdown = 1.0 - state.wealth / state.peak
            return math.log(state.wealth / before), state.wealth < 0.5

        @staticmethod
        def observe(state, tables, out):
            for asset in range(5):
                out[asset] = math.log(tables.bars[state.bar, asset, 3] / tables.bars[state.bar - 1, asset, 3])
                out[5 + asset] = tables.bars[state.bar, asset, 6] * tables.bars[state.bar, asset, 5] / 3
            out[10] = state.wealth
            out[11] = state.held

    return Trader


TraderF4, TraderF8 = _trading("f4"), _trading("f8")


def bars(rows=2000):
    """Bars that look like prices."""
    generator = np.random.default_rng(7)
    close = 100 * np.exp(np.cumsum(generator.normal(0, 0.01, (rows, 5)), axis=0))
    columns = [
        close,
        close * 1.01,
        close * 0.99,
        close,
        close,
        generator.random((rows, 5)),
        generator.random((rows, 5)),
    ]
    return np.stack(columns, axis=2)


class ConnectFour(KernelWorld):
    """Four in a row against an opponent who plays at random. The mask shows which columns have room."""

    observation_space = spaces.Box(-1, 1, (6, 7), np.int8)
    action_space = spaces.Discrete(7)
    state = {"board": ("i1", (6, 7)), "stones": ("u1", (7,))}

    @staticmethod
    def reset(state):
        state.stones[integer(state, 0, 7)] = 0

    @staticmethod
    def step(state, action):
        if state.stones[action] >= 6:
            return -1.0, True
        if drop(state, action, 1):
            return 1.0, True
        room = 0
        for column in range(7):
            room += state.stones[column] < 6
        if room == 0:
            return 0.0, True
        number = integer(state, 0, room)
        for column in range(7):
            if state.stones[column] < 6:
                if number == 0:
                    return (-1.0, True) if drop(state, column, -1) else (0.0, state.steps >= 40)
                number -= 1
        return 0.0, False

    @staticmethod
    def observe(state, out):
        for row in range(6):
            for column in range(7):
                out[row, column] = state.board[row, column]

    @staticmethod
    def action_mask(state, out):
        for column in range(7):
            out[column] = state.stones[column] < 6


def drop(state, column, colour):
    """Let a stone fall; returns whether it makes four in a row."""
    row = 5 - state.stones[column]
    state.board[row, column] = colour
    state.stones[column] += 1
    for way in range(4):
        down, right = (0, 1, 1, 1)[way], (1, 0, 1, -1)[way]
        count = 1
        for sign in (-1, 1):
            r, c = row + sign * down, column + sign * right
            while 0 <= r < 6 and 0 <= c < 7 and state.board[r, c] == colour:
                count += 1
                r, c = r + sign * down, c + sign * right
        if count >= 4:
            return True
    return False


class DoublePendulum(KernelWorld):
    """Two rods and a motor, in steps of Euler, with a continuous action of single precision."""

    observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    state = {"angle": ("f8", (2,)), "spin": ("f8", (2,)), "last": "f4"}
    parameters = {"gravity": 9.81, "noise": 0.01}
    time_limit = 200

    @staticmethod
    def reset(state):
        for k in range(2):
            state.angle[k] = uniform(state, -0.1, 0.1)

    @staticmethod
    def step(state, action, params):
        state.last = 0.7 * state.last + 0.3 * action[0]
        bend = state.angle[0] - state.angle[1]
        base = 3.0 - math.cos(2.0 * bend)
        first = (
            -3.0 * params.gravity * math.sin(state.angle[0])
            - params.gravity * math.sin(state.angle[0] - 2.0 * state.angle[1])
            - 2.0 * math.sin(bend) * (state.spin[1] ** 2 + state.spin[0] ** 2 * math.cos(bend))
        ) / base
        second = (
            2.0
            * math.sin(bend)
            * (2.0 * state.spin[0] ** 2 + 2.0 * params.gravity * math.cos(state.angle[0]) + math.cos(bend))
            / base
        )
        state.spin[0] += 0.02 * (first + state.last * action[0] + normal(state, 0.0, params.noise))
        state.spin[1] += 0.02 * second
        for k in range(2):
            state.spin[k] = min(max(state.spin[k], -20.0), 20.0)
            state.angle[k] += 0.02 * state.spin[k]
        return -abs(state.angle[0]) - 0.1 * action[0] * action[0], abs(state.angle[0]) > 20.0

    @staticmethod
    def observe(state, out):
        for k in range(2):
            out[3 * k], out[3 * k + 1] = math.cos(state.angle[k]), math.sin(state.angle[k])
            out[3 * k + 2] = state.spin[k] * state.last


class Portfolio(KernelWorld):
    """Weights of eight assets; what is in a row of prices is read by loops over the arrays' own lengths."""

    observation_space = spaces.Box(-np.inf, np.inf, (3, 8), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (8,), np.float32)
    state = {"bar": "i8", "weights": ("f8", (8,)), "wealth": "f8"}
    scratch = {"wanted": ("f8", (8,))}
    parameters = {"fee": 0.0005}
    info = {"wealth": "f8"}
    tables = {"prices": Table((None, 8), "f8"), "volumes": Table((None, 8), "f4")}
    time_limit = 250

    @staticmethod
    def reset(state, tables):
        state.bar = integer(state, 5, len(tables.prices) - 260)
        state.wealth = 1.0

    @staticmethod
    def step(state, action, params, tables, scratch, info):
        total = 0.0
        for asset in range(len(state.weights)):
            scratch.wanted[asset] = math.exp(2.0 * action[asset])
            total += scratch.wanted[asset]
        traded, growth = 0.0, 0.0
        for asset in range(len(state.weights)):
            weight = scratch.wanted[asset] / total
            traded += abs(weight - state.weights[asset])
            state.weights[asset] = weight
            growth += weight * tables.prices[state.bar + 1, asset] / tables.prices[state.bar, asset]
        before = state.wealth
        state.wealth *= growth * (1.0 - params.fee * traded)
        state.bar += 1
        info.wealth = state.wealth
        return math.log(state.wealth / before), state.wealth < 0.2

    @staticmethod
    def observe(state, tables, out):
        for asset in range(out.shape[1]):
            out[0, asset] = state.weights[asset]
            out[1, asset] = tables.prices[state.bar, asset] / tables.prices[state.bar - 5, asset] - 1.0
            mean = 0.0
            for back in range(5):
                mean += tables.volumes[state.bar - back, asset] / 5
            out[2, asset] = tables.volumes[state.bar, asset] / mean - 1.0


def portfolio(rows=2000):
    """A portfolio of made-up prices and volumes."""
    generator = np.random.default_rng(9)
    prices = 100 * np.exp(np.cumsum(generator.normal(0, 0.01, (rows, 8)), axis=0))
    return Portfolio(prices=prices, volumes=generator.random((rows, 8)).astype(np.float32) + 0.5)
