"""Small games for two as kernel worlds: one with turns and masks, one in which both move at once."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld

LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]], np.int64)


class TicTacToe(KernelWorld):
    """Three in a row. Agent 0 begins. A move to a taken field loses; masks forbid it."""

    observation_space = spaces.Box(-1, 1, (9,), np.float32)
    action_space = spaces.Discrete(9)
    num_agents = 2
    state = {"board": ("i1", (9,))}  # 0, or 1 + the agent that has the field
    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}

    @staticmethod
    def turn(state):
        return state.steps % 2

    @staticmethod
    def reset(state):
        pass

    @staticmethod
    def step(state, action, rewards):
        agent = state.steps % 2
        field = action[agent]
        if state.board[field] != 0:
            rewards[agent], rewards[1 - agent] = -1.0, 1.0
            return True
        state.board[field] = 1 + agent
        for line in range(8):
            count = 0
            for k in range(3):
                count += state.board[LINES[line, k]] == 1 + agent
            if count == 3:
                rewards[agent], rewards[1 - agent] = 1.0, -1.0
                return True
        return state.steps == 8

    @staticmethod
    def observe(state, out, agent):
        for k in range(9):
            out[k] = 0.0 if state.board[k] == 0 else 1.0 if state.board[k] == 1 + agent else -1.0

    @staticmethod
    def action_mask(state, out, agent):
        for k in range(9):
            out[k] = state.board[k] == 0

    def render(self, state, params, mode):
        board = np.array([state.board[k] for k in range(9)]).reshape(3, 3)
        colours = np.array([[255, 255, 255], [30, 90, 160], [200, 80, 50]], np.uint8)
        return colours[board].repeat(16, 0).repeat(16, 1)


class Race(KernelWorld):
    """Both choose a force at once; whose token is further after some steps has won, and `winner` says it. The agents
    differ: agent 1 starts behind, and is stronger."""

    observation_space = spaces.Box(-100, 100, (3,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    num_agents = 2
    state = {"x": ("f8", (2,))}
    info = {"winner": "i8", "place": "f8", "pushes": ("f4", (2,))}
    parameters = {"strength": 1.5}
    time_limit = 6

    @staticmethod
    def reset(state, info):
        state.x[0] = uniform(state, 0.0, 1.0)
        state.x[1] = -1.0
        for agent in range(2):
            info[agent].place = state.x[agent]

    @staticmethod
    def step(state, action, params, info, rewards):
        state.x[0] += action[0, 0] - 0.5 * action[0, 1]
        state.x[1] += params.strength * (action[1, 0] - 0.5 * action[1, 1])
        for agent in range(2):
            lead = state.x[agent] - state.x[1 - agent]
            rewards[agent] = action[agent, 0]
            info[agent].winner = 1 if lead > 0.0 else -1
            info[agent].place = state.x[agent]
            for k in range(2):
                info[agent].pushes[k] = action[agent, k]
        return False

    @staticmethod
    def observe(state, out, agent):
        out[0], out[1], out[2] = state.x[agent], state.x[1 - agent], agent
