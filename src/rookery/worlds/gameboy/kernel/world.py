"""A Game Boy game as a kernel world, as its profile describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import OptionError
from rookery.kernel.world import KernelWorld
from rookery.worlds.gameboy import states
from rookery.worlds.gameboy.game_profile import find
from rookery.worlds.gameboy.kernel.game import (
    CONSOLE_PLACES,
    build_reset_and_step,
    observe_both,
    observe_memory,
    observe_pixels,
    screen,
)
from rookery.worlds.gameboy.kernel.header import Cartridge, cartridge_of
from rookery.worlds.gameboy.kernel.instructions import INSTRUCTIONS
from rookery.worlds.gameboy.kernel.layout import HEIGHT, STATE, WIDTH
from rookery.worlds.gameboy.kernel.profile_tables import ProfileTables
from rookery.worlds.gameboy.kernel.starts import StartConsole, from_pyboy
from rookery.worlds.gameboy.observe import MemoryObservation
from rookery.worlds.gameboy.profile_schema import Profile
from rookery.worlds.gameboy.rom import find_rom

KEYS = {"right": 1, "left": 2, "up": 4, "down": 8, "a": 16, "b": 32, "select": 64, "start": 128}
KINDS = ("memory", "pixels", "both")
FRAMES_PER_SECOND = 60
Size = tuple[int, int]  # rows and columns of a picture


class GameBoyWorld(KernelWorld):
    """A game. `reset(options={"start": k})` starts from the profile's state number k; -1 is a random one."""

    bounds = False  # the tests run it checked
    max_registers = 128  # 131,072 consoles on an H200, with pictures: 10.8 M frames/s; with 64 of them 9.7 M
    render_parameters = {"draw": 1}
    action_space = spaces.Discrete(1)
    observation_space: spaces.Space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._build(**options)
        super().__init__()

    @classmethod
    def of(
        cls,
        profile: Profile,
        cartridge: Cartridge,
        starts: list[StartConsole],
        screen_size: Size | None = None,
    ) -> GameBoyWorld:
        """A world of these consoles. It cannot be pickled."""
        world = object.__new__(cls)
        world._lay_out(profile, cartridge, starts, profile.observation.kind, profile.episode.length, screen_size)
        KernelWorld.__init__(world)
        return world

    def __reduce__(self) -> Any:
        return _made_again, (self._options, self.values)

    def __copy__(self) -> GameBoyWorld:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    @property
    def name(self) -> str:
        return "GameBoy"

    def _build(
        self,
        profile: str | Path = "meadow",
        rom: str | Path | None = None,
        observation: str | None = None,
        episode_length: int | None = None,
        screen_size: Size | None = None,
        **others: Any,
    ) -> None:
        if "guide" in others:
            raise OptionError("a guide sees the game on PyBoy only")
        if others:
            raise OptionError(f"a Game Boy world has no option {next(iter(others))!r}")
        found = find(profile)
        if observation is not None and observation not in KINDS:
            raise OptionError(f"observation should be one of {', '.join(KINDS)}, got {observation!r}")
        checked = find_rom(found, rom)
        cartridge = cartridge_of(checked.data, checked.origin)
        starts = [from_pyboy(state, cartridge) for state in states.start_states(found, checked)]
        kind = observation or found.profile.observation.kind
        if kind != "pixels" and not found.profile.observation.memory:
            where = f"{found.path} lists no values for it ([observation] memory)"
            raise OptionError(f"observation is {kind!r}, but {where}")
        length = episode_length or found.profile.episode.length
        self._lay_out(found.profile, cartridge, starts, kind, length, screen_size)

    def _lay_out(
        self,
        profile: Profile,
        cartridge: Cartridge,
        starts: list[StartConsole],
        kind: str,
        length: int,
        screen_size: Any,
    ) -> None:
        """Declare the world."""
        made = ProfileTables(profile, cartridge.memory, length)
        frames_at = cartridge.memory + made.visited_bytes
        pixels = profile.observation.pixels
        rows, columns = screen_size or (HEIGHT // pixels.shrink, WIDTH // pixels.shrink)
        stack, channels = pixels.stack, 1 if pixels.grey else 3
        self.memory = frames_at + (rows * columns * stack if kind != "memory" and stack > 1 else 0)
        self.tables = {
            "rom": cartridge.rom,
            "instructions": INSTRUCTIONS,
            "starts": np.array([_console_numbers(start) for start in starts], np.int64),
            # One after the other: compiled code depends on the width of a table, and cartridges have RAM of six sizes.
            "start_memory": np.concatenate([start.memory for start in starts]),
            "screens": np.array([start.screen.ravel() for start in starts]),
            "buttons": np.array([sum(map(KEYS.__getitem__, held)) for held in profile.actions.buttons], np.uint8),
            "picture": np.array([stack, channels, frames_at], np.int64),
            "rows": np.arange(rows) * HEIGHT // rows,  # of the screen
            "columns": np.arange(columns) * WIDTH // columns,
            **made.arrays,
        }
        count, terms = max(len(profile.memory), 1), max(len(profile.reward), 1)
        own = {"values": ("i8", (count,)), "before": ("i8", (count,)), "given": ("u1", (terms,))}
        self.state = {**STATE, **own, "start": "i4", "succeeded": "u1"}
        index = {name: k for k, name in enumerate(profile.memory)}
        succeeds = profile.episode.success is not None
        self.info = {name: "i8" for name in profile.info.values} | ({"is_success": "?"} if succeeds else {})
        self.reset, self.step = build_reset_and_step([(name, index[name]) for name in profile.info.values], succeeds)
        self.time_limit = length
        draw = int(kind != "memory")
        skip, held = profile.actions.frame_skip, profile.actions.held
        self.parameters = {"start": -1, "frame_skip": skip, "hold": held, "draw": draw}
        self.action_space = spaces.Discrete(len(profile.actions.buttons))
        seen = MemoryObservation(profile.observation, profile.memory, index).space
        pictures = spaces.Box(0, 255, (channels * stack, rows, columns), np.uint8)
        forms: dict[str, tuple[Any, Any]] = {
            "memory": (seen, observe_memory),
            "pixels": (pictures, observe_pixels),
            "both": (spaces.Dict({"memory": seen, "pixels": pictures}), observe_both),
        }
        self.observation_space, self.observe = forms[kind]
        fps = max(1, FRAMES_PER_SECOND // profile.actions.frame_skip)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": fps, "outcomes": tuple(profile.info.values)}

    def render(self, state: Any, params: Any, mode: str, memory: Any = None) -> np.ndarray:
        """The screen, (144, 160, 3)."""
        record = np.zeros(1, self.state_dtype)
        for name in ("shown", "start"):
            record[name] = getattr(state, name)
        return np.repeat(screen(record, memory, np.asarray(self.tables["screens"]))[:, :, None], 3, 2)


def _made_again(options: dict[str, Any], values: dict[str, Any]) -> GameBoyWorld:
    world = GameBoyWorld(**options)
    world.values.update(values)
    return world


def _console_numbers(start: StartConsole) -> list[int]:
    """The numbers of a console, in the order of CONSOLE_PLACES."""
    numbers = [int(number) for name in STATE for number in np.ravel(start.console[name][0])]
    assert len(numbers) == len(CONSOLE_PLACES)
    return numbers
