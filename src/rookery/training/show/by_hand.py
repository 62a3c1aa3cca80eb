"""A person acts in a world by the keyboard, in a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.console import say
from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.held_keys import HeldKeys
from rookery.training.resolve.world_choice import World
from rookery.training.show.grid import show_in_window
from rookery.training.show.rendered_env import RenderedEnv, check_display, open_rendered
from rookery.training.show.video import frame_stride, video_path, write_video

# The columns of letters: keys for more and for less of each number of an action.
COLUMNS = tuple(zip("qwertyuio", "asdfghjkl", strict=True))
DIGITS = "0123456789"
ARROWS = (("RIGHT", "LEFT"), ("UP", "DOWN"))  # also for the first two numbers
LETTER_OF = {"UP": "w", "LEFT": "a", "DOWN": "s", "RIGHT": "d"}  # of keys that envs name
SPACE = "SPACE"
GENERAL_KEYS = "Backspace restarts, Esc quits"
RECORDED_SECONDS = 30


@dataclass
class EpisodesByHand:
    """The episodes that a person has finished."""

    returns: list[float] = field(default_factory=list)
    steps: int = 0

    def as_json(self) -> dict[str, Any]:
        return {"episodes": len(self.returns), **asdict(self)}

    def __str__(self) -> str:
        """
        >>> print(EpisodesByHand([1.5, 2.0], steps=80))
        2 episodes in 80 steps: returns 1.5, 2
        """
        count = len(self.returns)
        text = f"{count} episode{'s' if count != 1 else ''} in {self.steps} steps"
        return text if not count else f"{text}: return{'s' if count > 1 else ''} {', '.join(map(_short, self.returns))}"


def keys_for(world: str, space: spaces.Space, env: Any = None) -> ActionKeys:
    """The keys of an env that names them, or of an action space."""
    named = getattr(env, "get_keys_to_action", None)
    if named is not None and isinstance(space, spaces.Discrete):
        return KeysOfEnv(named())
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.shape[0] <= len(COLUMNS):
        return KeysOfNumbers(space)
    if isinstance(space, spaces.Discrete) and space.n <= len(DIGITS):
        return KeysOfChoices(space)
    raise OptionError(
        f"{world} cannot be played by the keyboard: its action should be a vector of at most {len(COLUMNS)} numbers, "
        f"or one of at most {len(DIGITS)} choices, and is {space}"
    )


class KeysOfChoices:
    """Each digit is one of the actions; without one it is the first."""

    def __init__(self, space: spaces.Discrete) -> None:
        self._start, self._digits = int(space.start), DIGITS[: int(space.n)]

    @property
    def help(self) -> str:
        return f"the action: {self._digits[0]} to {self._digits[-1]}; without a key it is {DIGITS[0]}. {GENERAL_KEYS}"

    def action(self, down: Set[str]) -> np.int64:
        held = [number for number, digit in enumerate(self._digits) if digit in down]
        return np.int64(self._start + (held[-1] if held else 0))

    def names(self) -> set[str]:
        return set(self._digits)


class KeysOfEnv:
    """Those that the env names by Gymnasium's `get_keys_to_action`: of the combinations that are held, the longest."""

    def __init__(self, actions: Mapping[tuple[str, ...], Any]) -> None:
        self._actions = {frozenset(SPACE if key == " " else key for key in keys): a for keys, a in actions.items()}

    @property
    def help(self) -> str:
        arrows = "; arrows too" if self.names() & set(LETTER_OF) else ""
        letters = sorted(key for key in self.names() if key not in LETTER_OF)
        return f"the keys are {', '.join(key.upper() for key in letters)}{arrows}. {GENERAL_KEYS}"

    def action(self, down: Set[str]) -> Any:
        pressed = {LETTER_OF.get(key, key) for key in down}
        held = [keys for keys in self._actions if keys <= pressed]
        return self._actions[max(held, key=len)] if held else 0

    def names(self) -> set[str]:
        own = {key for keys in self._actions for key in keys}
        return own | {arrow for arrow, letter in LETTER_OF.items() if letter in own}


class KeysOfNumbers:
    """Each pair of keys sets a number to its highest or lowest value."""

    def __init__(self, space: spaces.Box) -> None:
        self._dtype = space.dtype
        self._low, self._high = np.where(np.isfinite([space.low, space.high]), [space.low, space.high], [[-1.0], [1.0]])
        self._rest = np.clip(0.0, self._low, self._high)

    @property
    def help(self) -> str:
        pairs = [f"{more.upper()}/{less.upper()}" for more, less in COLUMNS[: len(self._rest)]]
        arrows = "; arrows too" if len(self._rest) <= len(ARROWS) else ""
        return f"more/less of each number of the action: {', '.join(pairs)}{arrows}. {GENERAL_KEYS}"

    def action(self, down: Set[str]) -> np.ndarray:
        chosen = self._rest.copy()
        for k, column in enumerate(COLUMNS[: len(chosen)]):
            pairs = (column, ARROWS[k]) if len(chosen) <= len(ARROWS) else (column,)
            more, less = (any(pair[way] in down for pair in pairs) for way in (0, 1))
            if more != less:
                chosen[k] = self._high[k] if more else self._low[k]
        return chosen.astype(self._dtype)

    def names(self) -> set[str]:
        return {key for pair in (*COLUMNS, *ARROWS) for key in pair}


ActionKeys = KeysOfChoices | KeysOfEnv | KeysOfNumbers  # an action from the keys that are held


def play_by_hand(
    world: World,
    fps: float | None = None,
    seed: int | None = None,
    episodes: int | None = None,
    record: str | None = None,
) -> EpisodesByHand:
    """Act in a world by the keyboard until the window is closed, or for a number of episodes. `record` names a file for
    a video of the last 30 seconds."""
    for name, number in (("fps", fps), ("games", episodes)):
        if number is not None:
            positive_int(name, number)
    path = None if record is None else video_path(Path(record))
    played = EpisodesByHand()
    with open_rendered(world, fps=fps) as rendered:
        keys = keys_for(world.name, rendered.env.action_space, rendered.env.unwrapped)
        check_display()
        say(keys.help)
        kept: deque[np.ndarray] = deque(maxlen=round(RECORDED_SECONDS * rendered.fps))
        frames = _frames(rendered, keys, played, seed, episodes)
        show_in_window(_kept(frames, kept), rendered.fps, f"{world.name}: {GENERAL_KEYS}")
        if path is not None and kept:
            every = frame_stride(path, rendered.fps)
            write_video(path, islice(kept, 0, None, every), rendered.fps / every)
    return played


def _frames(
    rendered: RenderedEnv, keys: ActionKeys, played: EpisodesByHand, seed: int | None, episodes: int | None
) -> Iterator[np.ndarray]:
    """Frames of the world, which is stepped between two of them."""
    held, env, episode_return = HeldKeys(), rendered.env, 0.0
    env.reset(seed=seed)
    while episodes is None or len(played.returns) < episodes:
        frame = rendered.frame()
        assert frame is not None  # it is not shown in a window of its own
        yield frame
        held.look()
        if held.was_pressed("ESCAPE"):
            return
        over = held.was_pressed("BACKSPACE")
        if not over:
            action = keys.action({name for name in keys.names() if held.is_down(name)})
            _, reward, terminated, truncated, _ = env.step(action)
            episode_return, played.steps = episode_return + float(reward), played.steps + 1
            over = terminated or truncated
            if over:
                played.returns.append(episode_return)
                say(f"episode {len(played.returns)}: return {_short(episode_return)}")
        if over:
            env.reset()
            episode_return = 0.0


def _kept(frames: Iterator[np.ndarray], kept: deque[np.ndarray]) -> Iterator[np.ndarray]:
    for frame in frames:
        kept.append(frame)
        yield frame


def _short(number: float) -> str:
    return f"{number:,.4g}"
