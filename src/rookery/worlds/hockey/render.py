"""Pictures of a game: as arrays, or in a window."""

from __future__ import annotations

import math
import os
import sys
import warnings
from typing import Any

import numpy as np

from rookery.errors import UsageError
from rookery.extras import load_pygame
from rookery.worlds.hockey.brush import HEIGHT, WIDTH, Colour, Point, pixel
from rookery.worlds.hockey.field import CENTRE_X, CENTRE_Y
from rookery.worlds.hockey.pieces import WHITE, paint_glow, paint_puck, paint_racket, paint_trail
from rookery.worlds.hockey.table import TEAMS, paint_table

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
    """Draws games. What it cannot see in a game's state is set from outside: `score`, the games that each player has
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
