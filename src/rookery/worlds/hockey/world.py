"""Air hockey as kernel worlds: both players in one row, one row per player, or one player against a script.

`hockey(...)` and `hockey_one(...)` choose among them. Their Gymnasium ids are "rookery/Hockey-v0" and
"rookery/HockeyOne-v0".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.console import say
from rookery.errors import OptionError, UsageError
from rookery.kernel.world import KernelWorld
from rookery.worlds.hockey.field import INFO, PARAMETERS, SCRATCH, STATE
from rookery.worlds.hockey.free import FREE, RACKET_NEAR_SOMETHING
from rookery.worlds.hockey.rules import STEPS, discrete_action, observe, play, play_if_free, reset, write_info


class Mode(enum.IntEnum):
    """The kind of game."""

    NORMAL = 0
    TRAIN_SHOOTING = 1
    TRAIN_DEFENSE = 2


MODES = {"normal": 0, "shooting": 1, "train_shooting": 1, "defense": 2, "train_defense": 2}
PLAYERS = {"free": 0, "none": 0, "weak": 1, "basic_weak": 1, "strong": 2, "basic_strong": 2}
VIEW = spaces.Box(-np.inf, np.inf, (18,), np.float32)


class HockeyWorld(KernelWorld):
    """The base class of all hockey worlds.

    Parameters: `mode` ("normal", "shooting", "defense"), `keep_mode`, `one_starts` (1 or 0; -1 alternates),
    `player_one` and `player_two` ("free" for the given actions, "weak" or "strong" for the script), `time_limit` (if
    omitted, that of the mode), `first_swing` (scripted rackets start to swing at a phase from 0 to this).
    """

    state = STATE
    scratch = SCRATCH
    info = INFO
    parameters = PARAMETERS
    observation_space: spaces.Space = VIEW
    time_limit = STEPS[0]
    aliases = {"opponent": "player_two"}
    hard_kinds = RACKET_NEAR_SOMETHING
    clips_actions = True  # the game's own rule
    agent_names = ("player_one", "player_two")
    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 50}
    reset: Any = staticmethod(reset)

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._picture: Any = None

    def encode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Translates the names of modes and players; a mode also sets its time limit."""
        numbers: dict[str, Any] = {}
        for name, value in values.items():
            if name == "mode":
                number = _named(name, value, MODES)
                numbers |= {"mode": number, "time_limit": STEPS[number]}
            elif name in ("player_one", "player_two", "opponent"):
                numbers[name] = _named(name, value, PLAYERS)
            elif name == "action_fineness" and value != self.values.get(name) and hasattr(self, "_picture"):
                raise OptionError("action_fineness sets the number of actions: make a new world to change it")
            elif name == "one_starts" and value not in (-1, 0, 1):
                raise OptionError(f"one_starts should be 1, 0, or -1 (alternating), got {value!r}")
            else:
                numbers[name] = value
        if values.get("time_limit") is not None:
            numbers["time_limit"] = values["time_limit"]
        return super().encode(numbers)

    def render(self, state: Any, params: Any, mode: str) -> Any:
        from rookery.worlds.hockey.render import Picture

        if self._picture is None:
            self._picture = Picture()
        try:
            return self._picture.draw(state, params, mode)
        except UsageError as error:  # no display: the env continues without a window
            say(str(error))
            self._picture.closed = True
            return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._picture is not None:
            self._picture.close()
            self._picture = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_picture": None}  # a window cannot be pickled

    @staticmethod
    def observe(state: Any, out: Any, agent: int) -> None:
        observe(state, out, agent)


class Hockey(HockeyWorld):
    """Both players' actions in one row; observations, rewards and infos are player 1's. Player 2's view is an info."""

    action_space: spaces.Space = spaces.Box(-1, 1, (8,), np.float32)
    info = INFO | {"obs_agent_two": "(18,)f4"}

    @staticmethod
    def reset(state: Any, params: Any, info: Any) -> None:
        reset(state, params)
        observe(state, info.obs_agent_two, 1)

    @staticmethod
    def step(state: Any, action: Any, params: Any, scratch: Any, info: Any) -> Any:
        for k in range(8):
            scratch.ask[k] = action[k]
        play(state, params, scratch)
        observe(state, info.obs_agent_two, 1)
        return write_info(state, params, info, 0), state.winner != 0

    @staticmethod
    def easy(state: Any, action: Any, params: Any, info: Any) -> Any:
        kind = play_if_free(state, params, action[0], action[1], action[2], action[4], action[5], action[6])
        if kind != FREE:
            return kind, 0.0, False
        observe(state, info.obs_agent_two, 1)
        return FREE, write_info(state, params, info, 0), False


class HockeyDiscrete(HockeyWorld):
    """Like `Hockey`, with discrete actions."""

    info = Hockey.info
    reset = staticmethod(Hockey.reset)
    parameters = {**PARAMETERS, "action_fineness": 2}

    def __init__(self, **parameters: Any) -> None:
        self.action_space = spaces.MultiDiscrete([choices(parameters)] * 2)
        super().__init__(**parameters)

    @staticmethod
    def step(state: Any, action: Any, params: Any, scratch: Any, info: Any) -> Any:
        for player in range(2):
            ask(scratch, player, action[player], params.action_fineness)
        play(state, params, scratch)
        observe(state, info.obs_agent_two, 1)
        return write_info(state, params, info, 0), state.winner != 0


class HockeyRows(HockeyWorld):
    """One row per player: own view, own four actions, own rewards and infos."""

    action_space: spaces.Space = spaces.Box(-1, 1, (4,), np.float32)
    num_agents = 2

    @staticmethod
    def step(state: Any, action: Any, params: Any, scratch: Any, info: Any, rewards: Any) -> Any:
        for player in range(2):
            for k in range(4):
                scratch.ask[4 * player + k] = action[player, k]
        play(state, params, scratch)
        for player in range(2):
            rewards[player] = write_info(state, params, info[player], player)
        return state.winner != 0

    @staticmethod
    def easy(state: Any, action: Any, params: Any, info: Any, rewards: Any) -> Any:
        x1, y1, turn1 = action[0, 0], action[0, 1], action[0, 2]
        x2, y2, turn2 = action[1, 0], action[1, 1], action[1, 2]
        kind = play_if_free(state, params, x1, y1, turn1, x2, y2, turn2)
        if kind == FREE:
            for player in range(2):
                rewards[player] = write_info(state, params, info[player], player)
        return kind, False


class HockeyRowsDiscrete(HockeyWorld):
    """Like `HockeyRows`, with discrete actions."""

    num_agents = 2
    parameters = {**PARAMETERS, "action_fineness": 2}

    def __init__(self, **parameters: Any) -> None:
        self.action_space = spaces.Discrete(choices(parameters))
        super().__init__(**parameters)

    @staticmethod
    def step(state: Any, action: Any, params: Any, scratch: Any, info: Any, rewards: Any) -> Any:
        for player in range(2):
            ask(scratch, player, action[player], params.action_fineness)
        play(state, params, scratch)
        for player in range(2):
            rewards[player] = write_info(state, params, info[player], player)
        return state.winner != 0


class HockeyOne(HockeyWorld):
    """Player 1 against a scripted opponent."""

    action_space: spaces.Space = spaces.Box(-1, 1, (4,), np.float32)
    parameters = {**PARAMETERS, "player_two": 1}

    @staticmethod
    def step(state: Any, action: Any, params: Any, scratch: Any, info: Any) -> Any:
        for k in range(4):
            scratch.ask[k] = action[k]
            scratch.ask[4 + k] = 0.0
        play(state, params, scratch)
        return write_info(state, params, info, 0), state.winner != 0

    @staticmethod
    def easy(state: Any, action: Any, params: Any, info: Any) -> Any:
        kind = play_if_free(state, params, action[0], action[1], action[2], 0.0, 0.0, 0.0)
        if kind != FREE:
            return kind, 0.0, False
        return FREE, write_info(state, params, info, 0), False


class HockeyOneDiscrete(HockeyWorld):
    """Like `HockeyOne`, with discrete actions."""

    parameters = {**PARAMETERS, "player_two": 1, "action_fineness": 2}

    def __init__(self, **parameters: Any) -> None:
        self.action_space = spaces.Discrete(choices(parameters))
        super().__init__(**parameters)

    @staticmethod
    def step(state: Any, action: Any, params: Any, scratch: Any, info: Any) -> Any:
        ask(scratch, 0, action, params.action_fineness)
        for k in range(4):
            scratch.ask[4 + k] = 0.0
        play(state, params, scratch)
        return write_info(state, params, info, 0), state.winner != 0


def ask(scratch: Any, player: int, index: int, fineness: int) -> None:
    """Set a player's action from its discrete number."""
    force_x, force_y, torque, shoot = discrete_action(index, fineness)
    first = 4 * player
    scratch.ask[first] = force_x
    scratch.ask[first + 1] = force_y
    scratch.ask[first + 2] = torque
    scratch.ask[first + 3] = shoot


def choices(parameters: Mapping[str, Any]) -> int:
    """The number of discrete actions per player."""
    fineness = parameters.get("action_fineness", 2)
    if not isinstance(fineness, int) or fineness < 2:
        raise OptionError(f"action_fineness should be an integer >= 2, got {fineness!r}")
    return 1 + 6 * (fineness - 1) + 1


def hockey(rows: int = 1, discrete: bool = False, **parameters: Any) -> HockeyWorld:
    """The two-player game: `rows=1` with both players' actions in one row, or `rows=2` with one row per player."""
    if rows not in (1, 2):
        raise OptionError(f"rows should be 1 (both players in one row) or 2 (one row per player), got {rows!r}")
    kinds = {
        (1, False): Hockey, (1, True): HockeyDiscrete, (2, False): HockeyRows, (2, True): HockeyRowsDiscrete,
    }  # fmt: skip
    return kinds[rows, bool(discrete)](**parameters)


def hockey_one(discrete: bool = False, **parameters: Any) -> HockeyWorld:
    """One player against a scripted `opponent`: "weak" (the default), "strong", or "none", which does not move."""
    return (HockeyOneDiscrete if discrete else HockeyOne)(**parameters)


def player_spaces() -> tuple[spaces.Space, spaces.Space]:
    """Observation space and continuous action space of one player."""
    return VIEW, HockeyOne.action_space


def action_table(
    observation_space: spaces.Space, continuous: spaces.Space, discrete: spaces.Space
) -> np.ndarray | None:
    """The continuous action behind each discrete one, [n, 4], so that agents with either kind can meet. None if the
    spaces are not hockey's."""
    if observation_space.shape != VIEW.shape or continuous != HockeyOne.action_space:
        return None
    if not isinstance(discrete, spaces.Discrete) or discrete.start or discrete.n < 8:
        return None
    fineness, rest = divmod(int(discrete.n) - 2, 6)
    if rest:
        return None
    return np.array([discrete_action(k, fineness + 1) for k in range(int(discrete.n))], np.float32)


def _named(name: str, value: Any, names: dict[str, int]) -> int:
    if isinstance(value, str) and value.lower() in names:
        return names[value.lower()]
    if isinstance(value, (int, np.integer)) and int(value) in names.values():
        return int(value)
    raise OptionError(f"{name} should be one of {', '.join(map(repr, names))}, got {value!r}")
