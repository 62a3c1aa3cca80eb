"""Hockey in a window: humans at the keyboard, scripts and agents play each other. It can be recorded as a GIF."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from rookery.errors import OptionError
from rookery.extras import load_pillow
from rookery.held_keys import HeldKeys
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.hockey.render import FRAMES_PER_SECOND, Picture
from rookery.worlds.hockey.world import Hockey

PLAYERS = ("human", "weak", "strong")
MODES = ("normal", "shooting", "defense")
PAUSE_FRAMES = 45  # between games, to show how the last one ended


class ExternalPlayer(Protocol):
    """A player that is neither human nor a script of the game, such as a trained agent."""

    name: str

    def begin(self) -> None:
        """Start a game."""

    def act(self, observation: np.ndarray) -> Any:
        """Force x, force y, torque and shoot, for the player's observation of 18 numbers."""


Who = str | ExternalPlayer


@dataclass
class MatchScore:
    """The results of the games."""

    names: tuple[str, str]
    won: int = 0
    lost: int = 0
    drawn: int = 0
    steps: int = 0

    @property
    def games(self) -> int:
        return self.won + self.lost + self.drawn

    def count(self, winner: int) -> None:
        """Count a finished game: 1 if the first player won, -1 if the second did, 0 for a draw."""
        self.won += winner == 1
        self.lost += winner == -1
        self.drawn += winner == 0

    def as_json(self) -> dict[str, Any]:
        return {"games": self.games, **asdict(self)}

    def __str__(self) -> str:
        """
        >>> str(MatchScore(("you", "strong script"), won=1, lost=2, drawn=1, steps=640))
        '4 games in 640 steps: you won 1, strong script won 2, 1 drawn'
        """
        games = "1 game" if self.games == 1 else f"{self.games} games"
        first, second = self.names
        return f"{games} in {self.steps} steps: {first} won {self.won}, {second} won {self.lost}, {self.drawn} drawn"


def play(
    player: Who = "human",
    opponent: Who = "strong",
    mode: str = "normal",
    fps: int = FRAMES_PER_SECOND,
    seed: int | None = None,
    games: int | None = None,
    record: str | None = None,
) -> MatchScore:
    """Play until the window is closed, or for a number of games; returns the results.

    `player` on the left and `opponent` on the right are each "human", "weak", "strong" or an ExternalPlayer.
    """
    _check(player, opponent, mode, fps, games)
    recording = Recording(record) if record else None
    match = HumanMatch(player, opponent, mode, fps, recording)
    try:
        match.play(seed, games)
    finally:
        match.close()
    if recording:
        recording.save()
    return match.tally


class HumanMatch:
    """A series of games in a window."""

    def __init__(self, player: Who, opponent: Who, mode: str, fps: int, recording: Recording | None) -> None:
        self._players = player, opponent
        scripts = ["free" if who == "human" or not isinstance(who, str) else who for who in self._players]
        # In plain Python a step takes 4 ms, which is fast enough for a window and needs no compilation.
        self._env = KernelEnv(Hockey, plain=True, mode=mode, player_one=scripts[0], player_two=scripts[1])
        self._params = SimpleNamespace(**self._env.parameters)
        people = [who == "human" for who in self._players]
        self._hands = assign_keys(*people)
        self._picture, self._recording = Picture(), recording
        self._picture.frames_per_second = fps
        self._picture.names = _names(player, opponent)
        self.tally = MatchScore(self._picture.names)
        self._keyboard = Keyboard()
        self._keys = key_help(sum(people))
        self._views: tuple[np.ndarray, np.ndarray]

    def play(self, seed: int | None, games: int | None) -> None:
        self._begin(seed)
        self._show()
        print(self._keys, file=sys.stderr)  # after the window is open
        while not self._stopped() and (games is None or self.tally.games < games):
            self._play_game()
            self._begin()

    def close(self) -> None:
        self._picture.close()

    def _begin(self, seed: int | None = None) -> None:
        observation, info = self._env.reset(seed=seed)
        self._views = observation, info["obs_agent_two"]
        for who in self._players:
            if not isinstance(who, str):
                who.begin()

    def _play_game(self) -> None:
        """One game, until it ends or the user restarts or quits."""
        over = False
        while not over:
            observation, _, terminated, truncated, info = self._env.step(self._actions())
            self._views = observation, info["obs_agent_two"]
            self.tally.steps += 1
            over = terminated or truncated
            if over:
                self.tally.count(self._env.state.winner)
            self._show()
            if self._stopped() or self._keyboard.restarted:
                return
        self._pause()

    def _pause(self) -> None:
        self._picture.banner = "" if self._env.state.winner else "DRAW"
        for _ in range(PAUSE_FRAMES):
            self._show()
            if self._stopped() or self._keyboard.restarted:
                break
        self._picture.banner = ""

    def _show(self) -> None:
        """Draw the game, and read the keyboard."""
        self._picture.score = self.tally.won, self.tally.lost
        self._picture.draw(self._env.state, self._params, "human")
        if self._recording:
            self._recording.add(self._picture.frame())
        if not self._picture.closed:
            self._keyboard.look()

    def _stopped(self) -> bool:
        return self._picture.closed or self._keyboard.left

    def _actions(self) -> np.ndarray:
        return np.concatenate([self._action(0), self._action(1)]).astype(np.float32)

    def _action(self, side: int) -> Any:
        """The action of an external player or of the keyboard. Keys use the table's directions; player 2's view is
        rotated."""
        who = self._players[side]
        if not isinstance(who, str):
            return who.act(self._views[side])
        x, y, turn, shoot = self._keyboard.action(self._hands[side])
        return (x, y, turn, shoot) if side == 0 else (-x, -y, turn, shoot)


def _names(player: Who, opponent: Who) -> tuple[str, str]:
    names = {"human": "you", "weak": "weak script", "strong": "strong script"}
    first, second = (names[who] if isinstance(who, str) else who.name for who in (player, opponent))
    if first != second:
        return first, second
    kind = "player" if player == "human" else first
    return f"left {kind}", f"right {kind}"


def _check(player: Who, opponent: Who, mode: str, fps: int, games: int | None) -> None:
    for name, value, known in (("player", player, PLAYERS), ("opponent", opponent, PLAYERS), ("mode", mode, MODES)):
        if isinstance(value, str) and value not in known:
            raise OptionError(f"{name} should be one of {', '.join(known)}, got {value!r}")
    for name, number in (("fps", fps), ("games", games)):
        if number is not None and number < 1:
            raise OptionError(f"{name} should be a positive integer, got {number}")


EVERY = 2  # frames; browsers show no more than some 30 in a second
MILLISECONDS = 40  # between frames that are kept: the game's own time
MOST_FRAMES = 750  # half a minute, some 200 MiB while recording


class Recording:
    """Keeps the last half minute of frames, and writes them to a file."""

    def __init__(self, file: str) -> None:
        self._image = load_pillow()
        self._path = Path(file)
        if self._path.suffix.lower() != ".gif":
            raise OptionError(f"record should name a file ending in .gif, got {file!r}")
        if not self._path.resolve().parent.is_dir():
            raise OptionError(f"record: there is no folder {str(self._path.resolve().parent)!r}")
        self._seen = 0
        self._frames: deque[Any] = deque(maxlen=MOST_FRAMES)
        self._colours: Any = None

    def add(self, frame: np.ndarray) -> None:
        """Record a frame, or skip it. All frames share the first one's palette: their own palettes would flicker."""
        if self._seen % EVERY == 0:
            image = self._image.fromarray(frame)
            self._colours = self._colours or image.quantize(256)
            self._frames.append(image.quantize(palette=self._colours, dither=self._image.Dither.NONE))
        self._seen += 1

    def save(self) -> None:
        """Write the recorded frames."""
        first, *others = self._frames
        first.save(self._path, save_all=True, append_images=others, duration=MILLISECONDS, loop=0)


GENERAL_KEYS = "R restart, Esc quit"


@dataclass(frozen=True)
class KeyBindings:
    """The keys of one player, by pygame's names, with a help text."""

    left: str
    right: str
    up: str
    down: str
    anticlockwise: str
    clockwise: str
    shoot: str
    text: str


LEFT_KEYS = KeyBindings("a", "d", "w", "s", "q", "e", "SPACE", "WASD move, Q/E turn, space shoots")
RIGHT_KEYS = KeyBindings(
    "LEFT", "RIGHT", "UP", "DOWN", "COMMA", "PERIOD", "RETURN", "arrows move, comma/period turn, Enter shoots"
)


def key_help(people: int) -> str:
    """The help text for a number of human players.

    >>> key_help(0)
    'R restart, Esc quit'
    """
    alone = [f"{LEFT_KEYS.text} (or: {RIGHT_KEYS.text})"]
    together = [f"left player: {LEFT_KEYS.text}", f"right player: {RIGHT_KEYS.text}"]
    return "\n".join([*([], alone, together)[people], GENERAL_KEYS])


def assign_keys(one_is_human: bool, two_is_human: bool) -> tuple[tuple[KeyBindings, ...], tuple[KeyBindings, ...]]:
    """The keys of each player: a single human may use both sets of keys."""
    if one_is_human and two_is_human:
        return (LEFT_KEYS,), (RIGHT_KEYS,)
    both = LEFT_KEYS, RIGHT_KEYS
    return (both if one_is_human else ()), (both if two_is_human else ())


class Keyboard(HeldKeys):
    """The pressed keys as a player's actions."""

    restarted = left = False

    def look(self) -> None:
        super().look()
        self.restarted, self.left = self.was_pressed("r"), self.was_pressed("ESCAPE")

    def action(self, hands: Iterable[KeyBindings]) -> list[float]:
        """Force x, force y, torque and shoot, from one or two sets of keys."""

        def pressed(way: str) -> float:
            return float(any(self.is_down(getattr(hand, way)) for hand in hands))

        sideways, upwards = pressed("right") - pressed("left"), pressed("up") - pressed("down")
        return [sideways, upwards, pressed("anticlockwise") - pressed("clockwise"), pressed("shoot")]
