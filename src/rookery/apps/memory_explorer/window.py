"""Exploring in a window: the screen four times as large, values beside it, keys held as long as they are down."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import Any

from rookery.apps.memory_explorer.commands import Commands, Quit
from rookery.apps.memory_explorer.desk import KEYS, TYPING, Desk, Line
from rookery.errors import OptionError
from rookery.extras import load_pygame
from rookery.worlds.gameboy.emulator import HEIGHT, WIDTH

ZOOM = 4
PANEL, BELOW = 380, 88  # dots beside and under the screen
LINE, EDGE = 19, 12
TEXT = 14
FRAMES_PER_SECOND = 60
FONTS = "dejavusansmono,liberationmono,menlo,consolas,couriernew,monospace"
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
GROUND = (24, 26, 30)
TONES = {"head": (160, 196, 255), "plain": (214, 218, 224), "dim": (128, 134, 144), "bright": (255, 214, 102)}


def has_screen() -> bool:
    """Whether there is somewhere to open a window. Without one SDL may open it where nobody sees it."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in SCREENS)


def explore(commands: Commands) -> None:
    """Explore until someone leaves or closes the window."""
    if not has_screen():
        raise OptionError("there is no screen for a window here, as DISPLAY is not set: --terminal needs none")
    window = Window(Desk(commands))
    try:
        while window.look():
            window.desk.advance()
            window.draw()
    except Quit:
        pass
    finally:
        window.close()


class Window:
    """A desk that can be seen."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._pygame = pygame = load_pygame()
        try:
            pygame.display.init()
            self.surface = pygame.display.set_mode((WIDTH * ZOOM + PANEL, HEIGHT * ZOOM + BELOW))
        except pygame.error as error:
            raise OptionError(f"no window can be opened here ({error}): --terminal needs none") from None
        pygame.font.init()
        pygame.display.set_caption(f"{desk.session.emulator.rom.title} - rookery gameboy explore")
        pygame.key.set_repeat()
        self._font = pygame.font.SysFont(FONTS, TEXT)
        self._clock = pygame.time.Clock()
        self._down: dict[int, str] = {}  # what each key was when it went down

    def look(self) -> bool:
        """Hear what was pressed; False if the window is closed."""
        pygame = self._pygame
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                return False
            if event.type == pygame.KEYDOWN and (name := self._name(event)):
                self._down[event.key] = name
                self.desk.press(name)
            elif event.type == pygame.KEYUP:
                self.desk.release(self._down.pop(event.key, ""))
        return True

    def _name(self, event: Any) -> str:
        pygame = self._pygame
        named = {
            pygame.K_UP: "up", pygame.K_DOWN: "down", pygame.K_LEFT: "left", pygame.K_RIGHT: "right",
            pygame.K_RETURN: "enter", pygame.K_KP_ENTER: "enter", pygame.K_SPACE: "space", pygame.K_ESCAPE: "escape",
            pygame.K_BACKSPACE: "backspace",
        }  # fmt: skip
        return named.get(event.key) or (event.unicode if event.unicode.isprintable() else "")

    def draw(self) -> None:
        """Show all, and wait until it is time for the next frame."""
        pygame, desk = self._pygame, self.desk
        self.surface.fill(GROUND)
        screen = pygame.surfarray.make_surface(desk.session.screen.swapaxes(0, 1))
        self.surface.blit(pygame.transform.scale(screen, (WIDTH * ZOOM, HEIGHT * ZOOM)), (0, 0))
        if desk.page:
            self._page(desk.page)
        else:
            self._lines(desk.panel((HEIGHT * ZOOM - EDGE) // LINE), WIDTH * ZOOM + EDGE, EDGE)
        self._lines(self._below(), EDGE, HEIGHT * ZOOM + EDGE // 2)
        pygame.display.flip()
        self._clock.tick(FRAMES_PER_SECOND)

    def _below(self) -> list[Line]:
        desk = self.desk
        if desk.page:
            return [Line("any key goes back", "dim")]
        if desk.prompt is not None:
            return [Line(desk.message), Line(f":{desk.prompt}_", "bright"), Line(TYPING, "dim")]
        return [Line(desk.message), *(Line(keys, "dim") for keys in KEYS)]

    def _page(self, page: list[str]) -> None:
        """A long answer, over everything but the last lines."""
        self.surface.fill(GROUND, (0, 0, self.surface.get_width(), HEIGHT * ZOOM))
        columns = self.surface.get_width() // max(1, self._font.size("0")[0]) - 3
        wrapped = [line for text in page for line in textwrap.wrap(text, columns, subsequent_indent=" " * 8) or [""]]
        self._lines([Line(text) for text in wrapped], EDGE, EDGE)

    def _lines(self, lines: list[Line], left: int, top: int) -> None:
        for k, line in enumerate(lines):
            if line.text:
                self.surface.blit(self._font.render(line.text, True, TONES[line.tone]), (left, top + k * LINE))

    def close(self) -> None:
        self._pygame.display.quit()
