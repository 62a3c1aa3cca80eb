"""Many envs of a world on show at once, one agent acting in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from rookery.console import say
from rookery.engine.seeding import child_seed
from rookery.learners.agent import Agent
from rookery.training.show.episode import HOLD, Length, act, outcome
from rookery.training.show.mosaic import Mosaic, Tile
from rookery.training.show.scene import Scene

MOST = 64  # envs that can still be told apart
USUAL_MOST = 16


def usual_count(num_envs: Any) -> int:
    """How many envs to show of a run that trained on so many; a number it found out by itself is not known here."""
    return min(num_envs, USUAL_MOST) if isinstance(num_envs, int) else USUAL_MOST


class Pane:
    """One env of the grid. Its episodes follow each other, with a moment between them in which nothing moves."""

    def __init__(self, scene: Scene, seed: int, length: Length) -> None:
        self._scene, self._length = scene, length
        self.observation, self.info = scene.env.reset(seed=seed)
        self.starts, self.done = True, False
        self.ends: list[str] = []
        self.returns: list[float] = []
        self._return = 0.0
        self._resting = 0  # steps for which the end of an episode stays to be seen
        self._picture: np.ndarray | None = None  # until the env moves again

    @property
    def moving(self) -> bool:
        return not self.done and not self._resting

    def advance(self, action: Any, seconds: float) -> None:
        """One step of the show, `seconds` after its beginning."""
        if self.moving:
            self._step(action)
        elif self._resting:
            self._resting -= 1
            if not self._resting:
                self._begin(seconds)

    def tile(self) -> Tile:
        if self._picture is None:
            self._picture = self._scene.frame()
            assert self._picture is not None  # its scene is not live
        return Tile(self._picture, self.ends, marked=bool(self._resting), dimmed=self.done)

    def _step(self, action: Any) -> None:
        env = self._scene.env
        self.observation, reward, terminated, truncated, self.info = env.step(action)
        self._return += float(reward)
        self._picture = None
        self.starts = terminated or truncated
        if self.starts:
            self.ends.append(outcome(self.info))
            self.returns.append(self._return)
            self._scene.end(self.info)
            self._resting = max(1, round(HOLD * self._scene.fps))

    def _begin(self, seconds: float) -> None:
        """The next episode, unless it was the last."""
        self.done = len(self.ends) >= self._length.episodes or seconds >= self._length.enough
        if not self.done:
            self.observation, self.info = self._scene.env.reset()
            self._return, self._picture = 0.0, None


def play_grid(scenes: Sequence[Scene], agent: Agent, seed: int, length: Length, every: int = 1) -> Iterator[np.ndarray]:
    """Play in all scenes, and give the picture of all at the first of `every` steps.

    Env i is seeded as the i-th of an engine's would be. A border appears around an env whose episode has ended, and a
    tick beneath it: green for good, red for bad, where the world says so. It darkens after its last one.
    """
    agent.reset_memory()
    panes = [Pane(scene, child_seed(seed, i), length) for i, scene in enumerate(scenes)]
    mosaic = Mosaic(len(panes), panes[0].tile().picture)
    steps = 0
    while not all(pane.done for pane in panes) and steps / scenes[0].fps < length.most:
        if steps % every == 0:
            yield mosaic.draw([pane.tile() for pane in panes])
        actions = act(
            agent, [pane.observation for pane in panes], [pane.info for pane in panes], [pane.starts for pane in panes]
        )
        steps += 1
        for pane, action in zip(panes, actions, strict=True):
            pane.advance(action, steps / scenes[0].fps)
    yield mosaic.draw([pane.tile() for pane in panes])
    say(_summary(panes))


def _summary(panes: Sequence[Pane]) -> str:
    returns = [value for pane in panes for value in pane.returns]
    ends = [end for pane in panes for end in pane.ends if end]
    told = f"{len(panes)} envs, {_counted(len(returns), 'episode')}"
    if returns:
        told += f": return {np.mean(returns):,.4g} on average"
    told += "".join(f", {ends.count(end)} {end}" for end in dict.fromkeys(sorted(ends)))
    unfinished = sum(pane.moving for pane in panes)
    return told + (f"; {unfinished} more cut short" if unfinished else "")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show_in_window(frames: Iterable[np.ndarray], fps: float, title: str) -> None:
    """Show pictures as they come, until they end or the window is closed."""
    from rookery.extras import load_pygame

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
            if any(event.type == pygame.QUIT for event in pygame.event.get()):
                return
    finally:
        pygame.display.quit()
