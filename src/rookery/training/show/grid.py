"""Many envs of a world shown at once, with one agent that acts in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rookery.console import say
from rookery.extras import load_pygame
from rookery.learners.agent import Agent
from rookery.training.show.episode import HOLD_SECONDS, PlayLimits, ShownAgent, outcome
from rookery.training.show.rendered_env import RenderedEnv
from rookery.training.show.video import as_rgb

MAX_ENVS = 1024
MAX_ENVS_BY_DEFAULT = 16


def default_env_count(num_envs: Any) -> int:
    """How many envs to show of a run that trained on `num_envs`; the number may be "auto"."""
    return min(num_envs, MAX_ENVS_BY_DEFAULT) if isinstance(num_envs, int) else MAX_ENVS_BY_DEFAULT


class GridEnv:
    """One env of the grid. It plays episode after episode; after each, its last frame is held for a moment."""

    def __init__(self, rendered: RenderedEnv, begin: Callable[[int], int], limits: PlayLimits) -> None:
        """`begin` gives the seed of an episode, by how many the env has played before."""
        self._rendered, self._begin, self._limits = rendered, begin, limits
        self.observation, self.info = rendered.env.reset(seed=begin(0), options=None)
        self.done = False
        self.outcomes: list[str] = []
        self.returns: list[float] = []
        self.episode_return = 0.0
        self.length = 0  # steps of the episode so far
        self._hold_steps = 0  # steps for which the last frame of an episode is still shown
        self._frame: np.ndarray | None = None  # of the current state; None after a step

    @property
    def playing(self) -> bool:
        return not self.done and not self._hold_steps

    def advance(self, action: Any, seconds: float) -> None:
        """One step of the grid, `seconds` after its start."""
        if self.playing:
            self._step(action)
        elif self._hold_steps:
            self._hold_steps -= 1
            if not self._hold_steps:
                self._next_episode(seconds)

    def cell(self) -> GridCell:
        if self._frame is None:
            self._frame = self._rendered.frame()
            assert self._frame is not None  # it is not live
        return GridCell(self._frame, self.outcomes, highlighted=bool(self._hold_steps), dimmed=self.done)

    def _step(self, action: Any) -> None:
        self.observation, reward, terminated, truncated, self.info = self._rendered.env.step(action)
        self.episode_return += float(reward)
        self.length += 1
        self._frame = None
        if terminated or truncated:
            self.outcomes.append(outcome(self.info))
            self.returns.append(self.episode_return)
            self._rendered.end_episode(self.info)
            self._hold_steps = max(1, round(HOLD_SECONDS * self._rendered.fps))

    def _next_episode(self, seconds: float) -> None:
        """Reset the env, unless the limits are reached."""
        self.done = len(self.outcomes) >= self._limits.episodes or seconds >= self._limits.enough_seconds
        if not self.done:
            self.observation, self.info = self._rendered.env.reset(seed=self._begin(len(self.outcomes)), options=None)
            self.episode_return, self.length, self._frame = 0.0, 0, None


def play_grid(
    rendered: Sequence[RenderedEnv], agent: Agent, seed: int, limits: PlayLimits, every: int = 1
) -> Iterator[np.ndarray]:
    """Play in all envs, and yield the image of all after every `every` steps.

    Of n envs, env i plays the episodes i, i + n and so on of an evaluation with this seed. When an episode ends, its
    env gets a border and a mark beneath it: green for a good outcome, red for a bad one, if the world reports outcomes.
    After its last episode it is dimmed.
    """
    shown, count = ShownAgent(agent, seed), len(rendered)

    def begin(env: int, played: int) -> int:
        return shown.begin(env, env + played * count)

    envs = [GridEnv(each, partial(begin, i), limits) for i, each in enumerate(rendered)]
    image = FrameGrid(len(envs), envs[0].cell().frame)
    steps = 0
    while not all(env.done for env in envs) and steps / rendered[0].fps < limits.max_seconds:
        if steps % every == 0:
            yield image.draw([env.cell() for env in envs])
        playing = [i for i, env in enumerate(envs) if env.playing]
        seen = [envs[i].observation for i in playing], [envs[i].info for i in playing]
        actions = dict(zip(playing, shown.act(playing, *seen), strict=True)) if playing else {}
        steps += 1
        for i, env in enumerate(envs):
            env.advance(actions.get(i), steps / rendered[0].fps)
    yield image.draw([env.cell() for env in envs])
    say(_summary(envs))


def _summary(envs: Sequence[GridEnv]) -> str:
    returns = [value for env in envs for value in env.returns]
    outcomes = [name for env in envs for name in env.outcomes if name]
    text = f"{len(envs)} envs, {_counted(len(returns), 'episode')}"
    if returns:
        text += f": return {np.mean(returns):,.4g} on average"
    text += "".join(f", {outcomes.count(name)} {name}" for name in dict.fromkeys(sorted(outcomes)))
    unfinished = sum(env.playing for env in envs)
    return text + (f"; {unfinished} more cut short" if unfinished else "")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show_in_window(frames: Iterable[np.ndarray], fps: float, title: str) -> None:
    """Show frames in a window, until they end or the window is closed."""
    pygame = load_pygame()
    pygame.display.init()
    clock = pygame.time.Clock()
    window: Any = None
    try:
        for frame in frames:
            if window is None:
                window = pygame.display.set_mode((frame.shape[1], frame.shape[0]))
                pygame.display.set_caption(title)
            window.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
            pygame.display.flip()
            clock.tick(fps)
            others = pygame.event.get(exclude=(pygame.KEYDOWN, pygame.KEYUP))  # keys are for who makes the frames
            if any(event.type == pygame.QUIT for event in others):
                return
    finally:
        pygame.display.quit()


MAX_WIDTH, MAX_HEIGHT = 1280, 960  # pixels of the whole image, as larger ones fit no screen
ASPECT = 1.5  # width / height of the whole image, as far as there is a choice
MAX_LARGE = 64  # of more frames, each is so small that a border of one pixel is seen, and marks would be too much
BORDER = 4  # pixels around a large frame, coloured when an episode ends
STRIP = 8  # pixels beneath it, with one mark per episode that has ended
MARK = 5  # pixels, the side of a mark
GAP = 3  # pixels between marks
BACKGROUND = (22, 22, 26)
COLOURS = {
    "won": (96, 200, 112), "succeeded": (96, 200, 112), "lost": (222, 88, 80), "failed": (222, 88, 80),
    "drawn": (228, 190, 92), "": (150, 158, 172),
}  # fmt: skip


@dataclass
class GridCell:
    """One frame of the image, and what is drawn around it."""

    frame: np.ndarray
    outcomes: Sequence[str]  # of the episodes so far: keys of COLOURS
    highlighted: bool = False  # the last episode has just ended
    dimmed: bool = False  # no more episodes follow


class FrameGrid:
    """Lays out `count` frames of the size of the first one; frames of other sizes are resized."""

    def __init__(self, count: int, first: np.ndarray) -> None:
        height, width = first.shape[:2]
        self._border, self._strip = (BORDER, STRIP) if count <= MAX_LARGE else (1, 0)
        self.columns = choose_columns(count, width / height)
        self.rows = math.ceil(count / self.columns)
        zoom = min(MAX_WIDTH / (self.columns * width), MAX_HEIGHT / (self.rows * height))
        self._enlarge, self._shrink = max(1, math.floor(zoom)), max(1, math.ceil(1 / zoom))
        self._size = height // self._shrink * self._enlarge, width // self._shrink * self._enlarge

    def draw(self, cells: Sequence[GridCell]) -> np.ndarray:
        """The whole image, as (height, width, 3) bytes."""
        height, width = self._size[0] + 2 * self._border + self._strip, self._size[1] + 2 * self._border
        image = np.empty((self.rows * height, self.columns * width, 3), np.uint8)
        image[:] = BACKGROUND
        for k, cell in enumerate(cells):
            top, left = k // self.columns * height, k % self.columns * width
            self._draw_cell(cell, image[top : top + height, left : left + width])
        return image

    def _draw_cell(self, cell: GridCell, part: np.ndarray) -> None:
        (height, width), border = self._size, self._border
        if cell.highlighted and cell.outcomes:
            part[: height + 2 * border] = COLOURS[cell.outcomes[-1]]
        frame = self._resized(as_rgb(cell.frame))
        part[border : border + height, border : border + width] = frame // 2 if cell.dimmed else frame
        max_marks = width // (MARK + GAP) if self._strip else 0
        for k, result in enumerate(cell.outcomes[-max_marks:] if max_marks else ()):
            left, top = border + k * (MARK + GAP), height + 2 * border + 1
            part[top : top + MARK, left : left + MARK] = COLOURS[result]

    def _resized(self, frame: np.ndarray) -> np.ndarray:
        height, width = self._size
        less, more = self._shrink, self._enlarge
        if frame.shape[0] // less * more != height or frame.shape[1] // less * more != width:
            rows = np.arange(height) * frame.shape[0] // height
            return frame[rows][:, np.arange(width) * frame.shape[1] // width]
        if less > 1:
            return _shrunk(frame, less)
        return frame.repeat(more, axis=0).repeat(more, axis=1)


def _shrunk(frame: np.ndarray, times: int) -> np.ndarray:
    """Each pixel is the mean of a square of pixels, as a sum of slices: ten times faster than `mean`."""
    height, width = (side // times * times for side in frame.shape[:2])
    total = np.zeros((height // times, width // times, 3), np.uint32)
    for row in range(times):
        for column in range(times):
            total += frame[row:height:times, column:width:times]
    return (total // times**2).astype(np.uint8)


def choose_columns(count: int, aspect: float) -> int:
    """How many frames to put side by side, for an image near `ASPECT` with few empty cells; `aspect` is the frame's
    width / height.

    >>> [choose_columns(count, 160 / 144) for count in (1, 2, 4, 6, 16)]
    [1, 2, 2, 3, 4]
    """

    def cost(columns: int) -> float:
        rows = math.ceil(count / columns)
        return abs(math.log(columns * aspect / rows / ASPECT)) + (rows * columns - count) / count

    return min(range(1, count + 1), key=cost)
