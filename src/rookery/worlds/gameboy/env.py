"""A Game Boy game as a Gymnasium env."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rookery.console import say
from rookery.errors import OptionError, StateError, WorldError
from rookery.worlds.gameboy import states
from rookery.worlds.gameboy.conditions import any_of
from rookery.worlds.gameboy.emulator import Emulator, Joypad
from rookery.worlds.gameboy.game_profile import find
from rookery.worlds.gameboy.guidance import Guidance
from rookery.worlds.gameboy.guide_settings import GuideSettings, guide_settings
from rookery.worlds.gameboy.observe import MemoryObservation, MemoryReader, PixelObservation, Values
from rookery.worlds.gameboy.rewards import Rewards
from rookery.worlds.gameboy.rom import find_rom

KINDS = ("memory", "pixels", "both")
FRAMES_PER_SECOND = 60


class GameBoyEnv(gym.Env):
    """A game on PyBoy, as its profile describes it.

    Args:
        profile: A profile that comes with rookery ("meadow", "oracle_of_seasons"), or the path of a TOML file.
        rom: The game's ROM; if omitted, the profile's built-in game, or the ROM with its title in $ROOKERY_ROM_DIR.
        observation: "memory" (a vector), "pixels" (channels, height, width) or "both" (a dict of the two); if omitted,
            the profile's kind.
        episode_length: Steps after which an episode is truncated; if omitted, the profile's length.
        render_mode: "rgb_array" for `render()`; every step then draws the screen, which costs a third of the speed.
        guide: Where hints that add to the reward come from: "my_file.py:Guide", "openai", or a run's hints.jsonl.
        guide_options: Options of the guide, such as `guide_every=200`.

    `reset(options={"start": k})` starts from the profile's state number k instead of a random one.

    Example:
        >>> import gymnasium, rookery
        >>> env = gymnasium.make("rookery/GameBoy-v0", profile="meadow")
        >>> observation, info = env.reset(seed=3)
        >>> observation, reward, terminated, truncated, info = env.step(1)
        >>> env.close()
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(
        self,
        profile: str | Path = "meadow",
        rom: str | Path | None = None,
        observation: str | None = None,
        episode_length: int | None = None,
        render_mode: str | None = None,
        guide: str | None = None,
        **guide_options: Any,
    ) -> None:
        settings = _guide_settings(guide, guide_options)
        found = find(profile)
        self.profile, self._profile_path = found.profile, found.path
        if not self.profile.reward:
            _warn_no_reward(found.path)
        self._check(observation, episode_length, render_mode)
        kind = observation or self.profile.observation.kind
        if kind != "pixels" and not self.profile.observation.memory:
            raise OptionError(
                f"observation is {kind!r}, but {found.path} lists no values for it ([observation] memory)"
            )
        self.render_mode = render_mode
        fps = max(1, FRAMES_PER_SECOND // self.profile.actions.frame_skip)
        self.metadata = {**self.metadata, "render_fps": fps, "outcomes": tuple(self.profile.info.values)}
        self._length = episode_length or self.profile.episode.length
        checked = find_rom(found, rom)
        self._starts = states.start_states(found, checked)
        self._emulator = Emulator(checked)
        self._set_up_reading(kind)
        self._draws = self._pixels is not None or render_mode is not None
        self._pad = Joypad(self.profile.actions, self._emulator, self._draws)
        self.action_space = self._pad.space
        self._guidance = None if settings is None else Guidance(settings, self.profile, self._index)

    def _check(self, observation: str | None, length: int | None, render_mode: str | None) -> None:
        if observation is not None and observation not in KINDS:
            raise OptionError(f"observation should be one of {', '.join(KINDS)}, got {observation!r}")
        if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
            raise OptionError(f"episode_length should be an integer >= 1, got {length!r}")
        if render_mode not in (None, "rgb_array"):
            raise OptionError(f"render_mode should be 'rgb_array' or None, got {render_mode!r}")

    def _set_up_reading(self, kind: str) -> None:
        profile, emulator = self.profile, self._emulator
        reader = MemoryReader(emulator.memory, profile.memory)
        self._read, self._index = reader.read, reader.index
        where = self._index
        self._rewards = Rewards(profile.reward, where)
        self._info_values = [(name, where[name]) for name in profile.info.values]
        self._ends = any_of(profile.episode.end, where)
        success = profile.episode.success
        self._has_success = success is not None
        self._success = any_of([success] if success else [], where)
        self._memory = MemoryObservation(profile.observation, profile.memory, where)
        self._pixels = None
        if kind != "memory":
            self._pixels = PixelObservation(profile.observation.pixels, emulator.screen, emulator.rom.colour)
        self._both = kind == "both"
        self.observation_space = self._space()
        self._steps, self._succeeded = 0, False

    def _space(self) -> spaces.Space:
        if self._pixels is None:
            return self._memory.space
        pixels = self._pixels.space
        return spaces.Dict({"memory": self._memory.space, "pixels": pixels}) if self._both else pixels

    # --- Gymnasium's interface ----------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._emulator.load(self._starts[self._choose(options)])
        self._pad.held, self._steps, self._succeeded = self._pad.nothing, 0, False
        self._values = self._read()
        self._rewards.begin(self._values)
        if self._guidance is not None:
            self._guidance.begin(seed, self._values)
        if self._ends(self._values):
            _warn_over_at_once(self._profile_path)
        if self._pixels is not None:
            self._pixels.begin()
        return self._observation(self._values), {name: self._values[k] for name, k in self._info_values}

    def _choose(self, options: dict[str, Any] | None) -> int:
        """The number of the state to start from."""
        count = len(self._starts)
        chosen = (options or {}).get("start")
        if chosen is None:
            return int(self.np_random.integers(count)) if count > 1 else 0
        if isinstance(chosen, bool) or not isinstance(chosen, (int, np.integer)) or not 0 <= chosen < count:
            raise OptionError(f"options['start'] should be an integer from 0 to {count - 1}, got {chosen!r}")
        return int(chosen)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before, guidance = self._values, self._guidance
        if guidance is not None:
            self._pad.draw = self._draws or guidance.asks_next
        self._pad.act(action)
        values = self._values = self._read()
        self._steps += 1
        terminated = self._ends(values)
        truncated = self._steps >= self._length and not terminated
        if not self._succeeded:
            self._succeeded = self._success(values)
        if self._pixels is not None:
            self._pixels.advance()
        info: dict[str, Any] = {name: values[k] for name, k in self._info_values}
        if (terminated or truncated) and self._has_success:
            info["is_success"] = self._succeeded
        if guidance is None:
            reward = self._rewards.give(before, values)
        else:
            gains = self._rewards.give_each(before, values)
            reward = sum(gains, 0.0) + guidance.give(values, gains, lambda: self.screen)
            if not (terminated or truncated) and (records := guidance.take_records()) is not None:
                info["hints"] = records
        return self._observation(values), reward, terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """The screen, (144, 160, 3)."""
        if self.render_mode is None:
            gym.logger.warn("render() was called on an env made without a render_mode")
            return None
        return self.screen

    def close(self) -> None:
        if self._guidance is not None:
            self._guidance.close()
        self._emulator.close()

    # --- values, screen, state ----------------------------------------------------------------------------------

    @property
    def values(self) -> dict[str, int]:
        """The current values of all names in the profile's [memory]."""
        return dict(zip(self.profile.memory, self._read(), strict=False))

    @property
    def screen(self) -> np.ndarray:
        """The screen, (144, 160, 3). It is drawn at every step if there is a render mode or a pixel observation."""
        return self._emulator.screen[:, :, :3].copy()

    def get_state(self) -> dict[str, Any]:
        """Everything that is needed to continue from here, as arrays and plain values."""
        state = self._emulator.save()
        self._emulator.load(state)  # so that this env continues exactly as a restored one does
        packed = states.pack(state, self._emulator.rom)
        return {
            "emulator": np.frombuffer(packed, np.uint8),
            "held": self._pad.held,
            "steps": self._steps,
            "succeeded": bool(self._succeeded),
            "rewards": self._rewards.get_state(),
            "frames": None if self._pixels is None else self._pixels.frames.copy(),
            **({} if self._guidance is None else {"guide": self._guidance.get_state()}),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what `get_state` returned, in this process or another."""
        frames, mine = state["frames"], None if self._pixels is None else self._pixels.frames
        same_shape = frames is None if mine is None else frames is not None and frames.shape == mine.shape
        if not same_shape or not 0 <= state["held"] <= self._pad.nothing:
            raise StateError("the state was saved with another observation or another profile than this env has")
        try:
            self._emulator.load(states.unpack(state["emulator"].tobytes(), self._emulator, "the saved emulator"))
        except WorldError as error:
            raise StateError(str(error)) from None
        self._pad.held, self._steps, self._succeeded = state["held"], state["steps"], state["succeeded"]
        self._rewards.set_state(state["rewards"])
        if self._guidance is not None:
            self._guidance.set_state(state.get("guide", {}))
        self._values = self._read()
        if mine is not None:
            mine[...] = frames

    def _observation(self, values: Values) -> Any:
        if self._pixels is None:
            return self._memory.see(values)
        pixels = self._pixels.frames.copy()
        return {"memory": self._memory.see(values), "pixels": pixels} if self._both else pixels


def _guide_settings(guide: str | None, options: dict[str, Any]) -> GuideSettings | None:
    for name in options:
        if not name.startswith("guide_"):
            raise TypeError(f"GameBoyEnv.__init__() got an unexpected keyword argument {name!r}")
    if guide is None and options:
        raise OptionError(f"{', '.join(options)}: there is no guide; name one, such as guide='my_file.py:Guide'")
    return None if guide is None else guide_settings(guide, options)


@cache
def _warn_over_at_once(path: Path) -> None:
    say(f"{path}: a condition of [episode] end is true at the start, so every episode ends after one step")


@cache
def _warn_no_reward(path: Path) -> None:
    """Once per profile: `explore` writes profiles without rewards."""
    say(f"{path} has no reward, so there is nothing to learn: add a [[reward]] table to it")
