"""Pictures of a game, as arrays or in a window: rackets, puck and trail, the glow of a goal; names and score."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from rookery.errors import UsageError
from rookery.extras import load_pygame
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.hockey.field import (
    CENTRE_X,
    CENTRE_Y,
    FREE_HIGH_Y,
    FREE_LOW_Y,
    LEFT_GOAL,
    PIXELS,
    PUCK,
    PUCK_RADIUS,
    RACKET_POLYGONS,
    RIGHT_GOAL,
    STATIC_HIGH_X,
    STATIC_HIGH_Y,
    STATIC_LOW_X,
    STATIC_LOW_Y,
)
from rookery.worlds.hockey.rules import KEPT
from rookery.worlds.hockey.table import (
    HEIGHT,
    TEAMS,
    WIDTH,
    Colour,
    Patch,
    Point,
    mixed,
    paint_table,
    pixel,
    sheer,
    turned,
)

FRAMES_PER_SECOND = 50
TITLE = "rookery: hockey"
UNSEEN = ("dummy", "offscreen")  # where SDL draws if it finds no screen
TEXT: Colour = (176, 188, 208)
MODES = ("normal game", "shooting practice", "defense practice")
PLAYERS = ("player {}", "weak script", "strong script")
SMALL, LARGE, HUGE = 18, 64, 84
LEFT, MIDDLE, RIGHT = 0.0, 0.5, 1.0  # which part of a text is put at its place
TOP_LINE, BOTTOM_LINE = 7.83, 0.17


class Picture:
    """Draws games. Facts that are not in a game's state are set from outside: `score`, the games that each player has
    won, `names`, those of the players, and `banner`, large words over the table.

    Example:
        >>> from rookery.kernel.kernel_env import KernelEnv
        >>> env = KernelEnv("rookery.worlds.hockey.world:Hockey", render_mode="rgb_array", plain=True)
        >>> observation, info = env.reset(seed=1)
        >>> env.render().shape
        (480, 600, 3)
    """

    def __init__(self) -> None:
        self._pygame = load_pygame()
        self._pygame.font.init()
        self.score: tuple[int, int] | None = None
        self.names: tuple[str, str] | None = None
        self.banner = ""
        self.frames_per_second = FRAMES_PER_SECOND
        self.closed = False  # whether the user closed the window
        self._table = paint_table()
        self._canvas = self._pygame.Surface((WIDTH, HEIGHT), 0, 32)
        self._fonts: dict[int, Any] = {}
        self._window: Any = None

    def draw(self, state: Any, params: Any, mode: str = "rgb_array") -> np.ndarray | None:
        """Draw the game's state: returned for "rgb_array", shown in a window for "human"."""
        self._paint(state, params)
        if mode == "human":
            self._show()
            return None
        return self.frame()

    def frame(self) -> np.ndarray:
        """The last picture, as an array (480, 600, 3) of bytes."""
        pixels = self._pygame.image.tobytes(self._canvas, "RGB")
        return np.frombuffer(bytearray(pixels), np.uint8).reshape(HEIGHT, WIDTH, 3)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window = None
            self._pygame.display.quit()

    # --- the picture --------------------------------------------------------------------------------------------

    def _paint(self, state: Any, params: Any) -> None:
        canvas = self._canvas
        canvas.blit(self._table, (0, 0))
        if state.winner:
            paint_glow(canvas, state.winner)
        self._write_around(state, params)
        paint_trail(canvas, state)
        for player in range(2):
            paint_racket(canvas, player, state.x[player], state.y[player], state.angle[player])
        paint_puck(canvas, state)
        banner = self.banner or ("GOAL" if state.winner else "")
        if banner:
            self._write_banner(banner, state.winner)

    def _write_around(self, state: Any, params: Any) -> None:
        """Names, mode and time on the frame; the score on the ice."""
        names = self.names or tuple(
            PLAYERS[script].format(number) for number, script in enumerate((params.player_one, params.player_two), 1)
        )
        limit = f" / {params.time_limit}" if params.time_limit else ""
        self._write(names[0], (0.75, TOP_LINE), SMALL, TEAMS[0], LEFT)
        self._write(names[1], (9.25, TOP_LINE), SMALL, TEAMS[1], RIGHT)
        self._write(MODES[params.mode], (0.75, BOTTOM_LINE), SMALL, TEXT, LEFT)
        self._write(f"step {state.steps}{limit}", (9.25, BOTTOM_LINE), SMALL, TEXT, RIGHT)
        if self.score is not None:
            for side, won, colour in zip((-1.0, 1.0), self.score, TEAMS, strict=True):
                self._write(str(won), (CENTRE_X + 1.05 * side, 6.65), LARGE, colour, MIDDLE, alpha=120)

    def _write_banner(self, text: str, winner: int) -> None:
        colour = TEAMS[0 if winner > 0 else 1] if winner else (70, 84, 110)
        for k in range(12):
            dx, dy = 0.06 * math.cos(k * math.pi / 6), 0.06 * math.sin(k * math.pi / 6)
            self._write(text, (CENTRE_X + dx, CENTRE_Y + dy), HUGE, WHITE)
        self._write(text, (CENTRE_X, CENTRE_Y), HUGE, colour)

    def _write(
        self, text: str, place: Point, size: int, colour: Colour, anchor: float = MIDDLE, alpha: int = 255
    ) -> None:
        if size not in self._fonts:
            self._fonts[size] = self._pygame.font.Font(None, size)
        written = self._fonts[size].render(text, True, colour)
        if alpha < 255:
            written.set_alpha(alpha)
        x, y = pixel(place)
        self._canvas.blit(written, (round(x - anchor * written.get_width()), round(y - 0.5 * written.get_height())))

    # --- the window ---------------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Show the picture, in time; once the window has been closed it stays closed."""
        if self.closed:
            return
        if self._window is None:
            self._open()
        self._window.blit(self._canvas, (0, 0))
        self._pygame.display.flip()
        self._clock.tick(self.frames_per_second)
        if self._pygame.event.get(self._pygame.QUIT):
            self.closed = True
            self.close()

    def _open(self) -> None:
        pygame = self._pygame
        try:
            if not _screen_named():
                raise pygame.error("none of DISPLAY, WAYLAND_DISPLAY and SDL_VIDEODRIVER is set")
            pygame.display.init()
            if pygame.display.get_driver() in UNSEEN and "SDL_VIDEODRIVER" not in os.environ:
                raise pygame.error("the display does not answer")
            with warnings.catch_warnings():  # of a slow renderer, which is fast enough for one picture
                warnings.simplefilter("ignore")
                self._window = pygame.display.set_mode((WIDTH, HEIGHT), pygame.SCALED | pygame.RESIZABLE)
        except pygame.error as error:
            pygame.display.quit()
            raise UsageError(
                f"a window cannot be opened here: {error}. Without a screen, use render_mode='rgb_array', or set "
                "SDL_VIDEODRIVER=dummy to continue without a window"
            ) from None
        pygame.display.set_caption(TITLE)
        self._clock = pygame.time.Clock()


def _screen_named() -> bool:
    """Whether there may be a display. If none is named, SDL would search for one and print errors."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    return sys.platform != "linux" or any(os.environ.get(name) for name in names)


WHITE: Colour = (255, 255, 255)
BLACK: Colour = (0, 0, 0)
SHADOW: Colour = (16, 26, 46)
PUCK_COLOUR: Colour = (28, 32, 42)
TRAIL_COLOUR: Colour = (70, 90, 130)
BEVEL = 0.06
RACKET_ROOM = 0.62  # around a racket's origin, for it and its shadow
KNOB = 10.0 / PIXELS
KNOB_BEHIND = 9.0 / PIXELS  # the racket's origin
TRAIL_SECONDS = 0.07
LONGEST_TRAIL = 2.2
TRAIL_PIECES = 32


def paint_racket(canvas: Any, player: int, x: float, y: float, angle: float) -> None:
    """A racket with bevelled edges and a knob to hold it by."""
    low, high = (x - RACKET_ROOM, y - RACKET_ROOM), (x + RACKET_ROOM, y + RACKET_ROOM)
    colour = TEAMS[player]
    outline = turned(RACKET_POLYGONS[player], angle, x, y)
    shadow = Patch(low, high, fine=1)
    shadow.polygon([(a + 0.04, b - 0.07) for a, b in outline], sheer(SHADOW, 0.42))
    shadow.blur(0.07)
    shadow.lay_on(canvas)
    body = Patch(low, high)
    body.bevelled(outline, BEVEL, colour)
    _paint_knob(body, player, x, y, angle, colour)
    body.lay_on(canvas)


def _paint_knob(body: Patch, player: int, x: float, y: float, angle: float, colour: Colour) -> None:
    behind = -KNOB_BEHIND if player == 0 else KNOB_BEHIND
    ((cx, cy),) = turned([(behind, 0.0)], angle, x, y)
    body.circle((cx + 0.015, cy - 0.025), KNOB, mixed(colour, BLACK, 0.3))
    body.circle((cx, cy), KNOB, mixed(colour, WHITE, 0.16))
    body.circle((cx - 0.015, cy + 0.025), 0.7 * KNOB, mixed(colour, WHITE, 0.34))


def paint_puck(canvas: Any, state: Any) -> None:
    """The puck; around a puck that is kept, a ring that shortens with the time left."""
    x, y = state.x[PUCK], state.y[PUCK]
    room = PUCK_RADIUS + 0.24
    shadow = Patch((x - room, y - room), (x + room, y + room), fine=1)
    shadow.circle((x + 0.03, y - 0.05), PUCK_RADIUS, sheer(SHADOW, 0.5))
    shadow.blur(0.06)
    shadow.lay_on(canvas)
    puck = Patch((x - room, y - room), (x + room, y + room))
    puck.circle((x, y), PUCK_RADIUS, PUCK_COLOUR)
    puck.circle((x - 0.008, y + 0.012), 0.86 * PUCK_RADIUS, mixed(PUCK_COLOUR, WHITE, 0.26))
    puck.circle((x, y), 0.78 * PUCK_RADIUS, mixed(PUCK_COLOUR, WHITE, 0.08))
    for player in range(2):
        if state.hold[player] > 0:
            share = min(1.0, state.hold[player] / KEPT)
            top = 0.5 * math.pi
            puck.arc((x, y), PUCK_RADIUS + 0.11, 0.07, top, top + 2.0 * math.pi, sheer(TEAMS[player], 0.25))
            puck.arc((x, y), PUCK_RADIUS + 0.11, 0.07, top, top - 2.0 * math.pi * share, TEAMS[player])
    puck.lay_on(canvas)


def paint_trail(canvas: Any, state: Any) -> None:
    """Where the puck comes from, by its velocity: the faster, the longer. It fades, and ends at the rails."""
    x, y, vx, vy = state.x[PUCK], state.y[PUCK], state.vx[PUCK], state.vy[PUCK]
    speed = math.hypot(vx, vy)
    length = min(LONGEST_TRAIL, TRAIL_SECONDS * speed)
    if length < 0.5 * PUCK_RADIUS:
        return
    forward = (vx / speed, vy / speed)
    tail = (x - forward[0] * length, y - forward[1] * length)
    low = (max(STATIC_HIGH_X[2], min(x, tail[0]) - PUCK_RADIUS), max(FREE_LOW_Y, min(y, tail[1]) - PUCK_RADIUS))
    high = (min(STATIC_LOW_X[3], max(x, tail[0]) + PUCK_RADIUS), min(FREE_HIGH_Y, max(y, tail[1]) + PUCK_RADIUS))
    if low[0] < high[0] and low[1] < high[1]:
        trail = Patch(low, high, fine=2)
        for k in range(TRAIL_PIECES):
            _paint_piece(trail, (x, y), forward, length, k / TRAIL_PIECES, (k + 1) / TRAIL_PIECES)
        trail.lay_on(canvas)


def _paint_piece(patch: Patch, head: Point, forward: Point, length: float, near: float, far: float) -> None:
    """The part of a trail between two shares of its length; it narrows and fades towards its end."""
    corners = []
    for share, side in ((near, 1.0), (far, 1.0), (far, -1.0), (near, -1.0)):
        along, across = -share * length, side * PUCK_RADIUS * 0.92 * (1.0 - 0.75 * share)
        dx, dy = forward[0] * along - forward[1] * across, forward[1] * along + forward[0] * across
        corners.append((head[0] + dx, head[1] + dy))
    patch.polygon(corners, sheer(TRAIL_COLOUR, 0.5 * (1.0 - near) ** 1.4))


def paint_glow(canvas: Any, winner: int) -> None:
    """Light in the goal that was hit, in the colour of who hit it."""
    goal = RIGHT_GOAL if winner > 0 else LEFT_GOAL
    left, right = STATIC_LOW_X[goal], STATIC_HIGH_X[goal]
    glow = Patch((left - 1.2, STATIC_LOW_Y[goal] - 1.2), (right + 1.2, STATIC_HIGH_Y[goal] + 1.2), fine=1)
    bottom, top = STATIC_LOW_Y[goal] + 0.15, STATIC_HIGH_Y[goal] - 0.15
    glow.polygon([(left, bottom), (right, bottom), (right, top), (left, top)], TEAMS[0 if winner > 0 else 1])
    glow.blur(0.5)
    glow.lay_on(canvas)


class HockeyViewer:
    """A `rookery.worlds.world_spec.Viewer` of one env."""

    def __init__(self, env: KernelEnv, fps: float, names: tuple[str, str] | None = None) -> None:
        self._env, self._picture = env, Picture()
        self._picture.frames_per_second = round(fps)
        self._picture.score = (0, 0)
        if names is not None:
            self._picture.names = names
        elif env.parameters["player_one"] == 0:
            self._picture.names = ("agent", PLAYERS[env.parameters["player_two"]].format(2))

    @property
    def names(self) -> tuple[str, str] | None:
        return self._picture.names

    @property
    def closed(self) -> bool:
        return self._picture.closed

    def draw(self, mode: str) -> np.ndarray | None:
        if not self._env.state.steps:
            self._picture.banner = ""
        return self._picture.draw(self._env.state, SimpleNamespace(**self._env.parameters), mode)

    def end_episode(self, info: Mapping[str, Any]) -> None:
        assert self._picture.score is not None
        winner, (won, lost) = int(info.get("winner", 0)), self._picture.score
        self._picture.score = won + (winner == 1), lost + (winner == -1)
        self._picture.banner = "" if winner else "DRAW"

    def close(self) -> None:
        self._picture.close()
