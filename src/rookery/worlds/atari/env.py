"""An Atari game as a Gymnasium env, preprocessed as the field does.

Observations, rewards and ends equal those of ale-py's env in Gymnasium's `AtariPreprocessing` and
`FrameStackObservation`, bit for bit. Frames that are skipped are neither copied nor converted.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rookery.errors import MissingExtra, OptionError, StateError, WorldError
from rookery.learners.plain_spaces import StackedBox
from rookery.worlds.atari.games import game_of, human_normalised
from rookery.worlds.atari.screen import Screen

KINDS = ("grayscale", "rgb", "ram")
FRAMES_PER_SECOND = 60
NORMALISED = "human_normalised"


class AtariEnv(gym.Env):
    """A game of ale-py.

    Args:
        game: Its id: `ALE/Pong-v5` (a quarter of all actions is repeated), or `PongNoFrameskip-v4` (none is).
        obs_type: "grayscale", "rgb", or "ram" for the 128 bytes of the console's memory, without a stack.
        noop_max: A game begins with 1 to so many frames without an action.
        frame_skip: Frames in which an action is repeated; the last two are pooled.
        screen_size: Height and width of a picture, or one number for both.
        stack_size: How many of the latest pictures an observation holds.
        episodic_life: Whether a lost life ends an episode; the game continues in the next one.
        clip_rewards: Whether a reward is only its sign.
        fire_reset: Whether FIRE is pressed at the start of each life, in games that wait for it.
        repeat_action_probability: How likely the emulator repeats the last action; if omitted, as the id says.
        full_action_space: All 18 actions instead of those that the game uses.
        mode, difficulty: Of the game, where it has several.
        max_num_frames_per_episode: Frames after which a game is truncated.
        render_mode: "rgb_array" for `render()`.

    The info of a game's last step has its `human_normalised` score, for the 57 games of which that of a person is
    known. `finished_episodes()` of an engine lists whole games with their full scores, whatever the options are.

    Example:
        >>> import pytest; _ = pytest.importorskip("ale_py")
        >>> env = AtariEnv("ALE/Breakout-v5")
        >>> observation, info = env.reset(seed=3)
        >>> observation.shape, info["lives"]
        ((4, 84, 84), 5)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15, "outcomes": (NORMALISED,)}

    def __init__(
        self,
        game: str = "ALE/Pong-v5",
        *,
        obs_type: str = "grayscale",
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int | tuple[int, int] = 84,
        stack_size: int = 4,
        episodic_life: bool = False,
        clip_rewards: bool = False,
        fire_reset: bool = False,
        repeat_action_probability: float | None = None,
        full_action_space: bool = False,
        mode: int | None = None,
        difficulty: int | None = None,
        max_num_frames_per_episode: int = 108_000,
        render_mode: str | None = None,
    ) -> None:
        self.rom, sticky = game_of(game)
        self._sticky = sticky if repeat_action_probability is None else repeat_action_probability
        size = _size(screen_size)
        _check(obs_type, render_mode, frame_skip=frame_skip, stack_size=stack_size)
        self._emulator = _emulator(
            game, self.rom, repeat_action_probability=self._sticky, full_action_space=full_action_space, mode=mode,
            difficulty=difficulty, max_num_frames_per_episode=max_num_frames_per_episode,
        )  # fmt: skip
        self._ale = self._emulator.ale
        self._actions = self._emulator._action_set
        self.action_space = self._emulator.action_space
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, FRAMES_PER_SECOND // frame_skip)}
        self._noop_max, self._frame_skip = noop_max, frame_skip
        self._episodic_life, self._clip_rewards = episodic_life, clip_rewards
        meanings = self._emulator.get_action_meanings()
        self._fires, self._fire = fire_reset and "FIRE" in meanings, meanings.index("FIRE") if "FIRE" in meanings else 0
        self._screen = None if obs_type == "ram" else Screen(self._ale, self.rom, size, obs_type == "rgb")
        shape = (stack_size, *size, *((3,) if obs_type == "rgb" else ()))
        self._seen = np.zeros((self._ale.getRAMSize(),) if self._screen is None else shape, np.uint8)
        box = spaces.Box(0, 255, self._seen.shape, np.uint8)
        self.observation_space = box if self._screen is None else StackedBox.of(box)
        self._lives, self._score, self._length, self._goes_on = 0, 0.0, 0, False

    # --- Gymnasium's interface ----------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None or not self._goes_on or any(self._skip_frames(0)[1:]):
            self._begin_game(seed)
        if self._fires and any(self._skip_frames(self._fire)[1:]):
            self._begin_game(None)
        self._lives, self._goes_on = self._ale.lives(), False
        self._observe(first=True)
        return self._seen.copy(), {"lives": self._lives}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward, terminated, truncated = self._skip_frames(int(action))
        lost = 0 < self._ale.lives() < self._lives and not (terminated or truncated)
        if lost and self._fires and not self._episodic_life:  # else the next episode begins with it
            more, terminated, truncated = self._skip_frames(self._fire)
            reward += more
        self._observe()
        self._length += 1
        self._lives = self._ale.lives()
        info: dict[str, Any] = {"lives": self._lives}
        if terminated or truncated:
            info["whole_episode"] = self._score, self._length
            normalised = human_normalised(self.rom, self._score)
            info |= {} if normalised is None else {NORMALISED: normalised}
        elif lost and self._episodic_life:
            terminated = self._goes_on = True
            info["whole_episode"] = None
        return self._seen.copy(), float(np.sign(reward)) if self._clip_rewards else reward, terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """The screen, (210, 160, 3)."""
        if self.render_mode is None:
            gym.logger.warn("render() was called on an env made without a render_mode")
            return None
        return self._ale.getScreenRGB()

    def get_action_meanings(self) -> list[str]:
        """What each action does."""
        return self._emulator.get_action_meanings()

    def get_keys_to_action(self) -> dict[tuple[str, ...], Any]:
        """The keys of people: W, A, S, D and space."""
        return self._emulator.get_keys_to_action()

    # --- a game -------------------------------------------------------------------------------------------------

    def _begin_game(self, seed: int | None) -> None:
        """A new game, some frames after its start."""
        self._restart(seed)
        if self._noop_max > 0:
            for _ in range(int(self.np_random.integers(1, self._noop_max + 1))):
                self._ale.act(self._actions[0])
                if self._ale.game_over():
                    self._restart(seed)
        if self._screen is not None:
            self._screen.capture(0)
            self._screen.pictures[1] = 0
        self._score, self._length = 0.0, 0

    def _restart(self, seed: int | None) -> None:
        self._emulator.reset(seed=seed)
        self._np_random = self._emulator.np_random

    def _skip_frames(self, action: int) -> tuple[float, bool, bool]:
        """Repeat an action; returns the reward, and whether the game has ended or was truncated. The frame in which it
        ends is not seen, as in Gymnasium."""
        ale, screen, pressed = self._ale, self._screen, self._actions[action]
        reward, last = 0.0, self._frame_skip - 1
        terminated = truncated = False
        for frame in range(self._frame_skip):
            reward += ale.act(pressed)
            terminated, truncated = ale.game_over(with_truncation=False), ale.game_truncated()
            if terminated or truncated:
                break
            if frame >= last - 1 and screen is not None:
                screen.capture(last - frame)
        if screen is not None and last > 0:
            screen.pool()
        self._score += reward
        return reward, terminated, truncated

    def _observe(self, first: bool = False) -> None:
        """Add the newest picture to those that are seen; it is all of them at the start of an episode."""
        if self._screen is None:
            self._ale.getRAM(self._seen)
            return
        if not first:
            self._seen[:-1] = self._seen[1:]
        self._screen.shrink_to(self._seen[-1])
        if first:
            self._seen[:-1] = self._seen[-1]

    # --- state --------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Everything that is needed to continue from here, as arrays and plain values. An emulator does not tell which
        action it would repeat, so that both this env and a restored one continue as if that was none."""
        state = self._ale.cloneState(include_rng=True)
        self._restore(state)
        return {
            "emulator": np.frombuffer(state.serialize(), np.uint8),
            "pictures": None if self._screen is None else self._screen.pictures.copy(),
            "seen": self._seen.copy(),
            "counts": [self._lives, self._score, self._length, self._goes_on],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what `get_state` returned, in this process or another."""
        from ale_py import ALEState

        mine = None if self._screen is None else self._screen.pictures
        shapes = [None if array is None else array.shape for array in (mine, state["pictures"])]
        if shapes[0] != shapes[1] or state["seen"].shape != self._seen.shape:
            raise StateError("the state was saved with other options of the observation than this env has")
        self._restore(ALEState(state["emulator"].tobytes()))
        if mine is not None:
            mine[...] = state["pictures"]
        self._seen[...] = state["seen"]
        self._lives, self._score, self._length, self._goes_on = state["counts"]

    def _restore(self, state: Any) -> None:
        if self._sticky > 0:
            self._ale.reset_game()  # which forgets the last action
        self._ale.restoreState(state)


def _emulator(game: str, rom: str, **options: Any) -> Any:
    """ale-py's env, frame by frame."""
    try:
        from ale_py import ALEInterface, LoggerMode
        from ale_py.env import AtariEnv as Emulator
    except ImportError as error:
        raise MissingExtra(
            f"{game} needs ale-py, which cannot be imported ({error}): pip install 'rookery[atari]'"
        ) from None
    ALEInterface.setLoggerMode(LoggerMode.Error)  # or the first emulator of a process prints a greeting
    try:
        return Emulator(rom, obs_type="ram", frameskip=1, **options)
    except OSError as error:
        raise WorldError(f"{game}: its ROM {rom}.bin is missing or another one: {error}") from None
    except RuntimeError as error:
        ale = Emulator(rom, obs_type="ram", frameskip=1).ale
        known = {"mode": ale.getAvailableModes(), "difficulty": ale.getAvailableDifficulties()}
        for name, values in known.items():
            if options[name] is not None and options[name] not in values:
                raise OptionError(
                    f"{game}: `{name}` should be one of {', '.join(map(str, values))}, got {options[name]!r}"
                ) from None
        raise WorldError(f"{game}: {error}") from error


def _size(given: Any) -> tuple[int, int]:
    sides = tuple(given) if isinstance(given, (tuple, list)) else (given, given)
    if len(sides) != 2 or not all(isinstance(side, int) and 0 < side <= 1024 for side in sides):
        raise OptionError(f"screen_size should be one or two integers from 1 to 1024, got {given!r}")
    return sides


def _check(obs_type: str, render_mode: str | None, **counts: int) -> None:
    if obs_type not in KINDS:
        raise OptionError(f"obs_type should be one of {', '.join(KINDS)}, got {obs_type!r}")
    if render_mode not in (None, "rgb_array"):
        raise OptionError(f"render_mode should be 'rgb_array' or None, got {render_mode!r}")
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise OptionError(f"{name} should be an integer >= 1, got {count!r}")
