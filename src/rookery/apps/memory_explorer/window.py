"""The explorer in a window: the screen at four times its size, with the panel beside it."""

from __future__ import annotations

import os
import sys
from typing import Any

from rookery.apps.memory_explorer.controls import ExplorerControls, StyledLine
from rookery.apps.memory_explorer.explorer_commands import Commands, Quit
from rookery.errors import OptionError
from rookery.extras import load_pygame
from rookery.worlds.gameboy.profile_schema import HEIGHT, WIDTH

ZOOM = 4
PANEL, BELOW = 380, 88  # dots beside and under the screen
LINE, EDGE = 19, 12
TEXT = 14
FRAMES_PER_SECOND = 60
FONTS = "dejavusansmono,liberationmono,menlo,consolas,couriernew,monospace"
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
GROUND = (24, 26, 30)
TONES = {"head": (160, 196, 255), "plain": (214, 218, 224), "dim": (128, 134, 144), "bright": (255, 214, 102)}
TONES["prompt"] = TONES["bright"]


def has_screen() -> bool:
    """Whether there is a display. Without one, SDL may open an invisible window."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in SCREENS)


def explore(commands: Commands) -> None:
    """Run the explorer until the user quits or closes the window."""
    if not has_screen():
        raise OptionError("there is no display for a window (DISPLAY is not set): use --terminal")
    window = Window(ExplorerControls(commands))
    try:
        while window.look():
            window.controls.advance()
            window.draw()
    except Quit:
        pass
    finally:
        window.close()


class Window:
    """Draws the controls, and passes keys to them."""

    def __init__(self, controls: ExplorerControls) -> None:
        self.controls = controls
        self._pygame = pygame = load_pygame()
        try:
            pygame.display.init()
            self.surface = pygame.display.set_mode((WIDTH * ZOOM + PANEL, HEIGHT * ZOOM + BELOW))
        except pygame.error as error:
            raise OptionError(f"no window can be opened ({error}): use --terminal") from None
        pygame.font.init()
        pygame.display.set_caption(f"{controls.session.emulator.rom.title} - rookery gameboy explore")
        pygame.key.set_repeat()
        self._font = pygame.font.SysFont(FONTS, TEXT)
        self._clock = pygame.time.Clock()
        self._down: dict[int, str] = {}  # the name of each key when it was pressed

    def look(self) -> bool:
        """Handle events; False if the window was closed."""
        pygame = self._pygame
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                return False
            if event.type == pygame.KEYDOWN and (name := self._name(event)):
                self._down[event.key] = name
                self.controls.press(name)
            elif event.type == pygame.KEYUP:
                self.controls.release(self._down.pop(event.key, ""))
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
        """Draw the window, and wait for the next frame."""
        pygame, controls = self._pygame, self.controls
        self.surface.fill(GROUND)
        screen = pygame.surfarray.make_surface(controls.session.screen.swapaxes(0, 1))
        self.surface.blit(pygame.transform.scale(screen, (WIDTH * ZOOM, HEIGHT * ZOOM)), (0, 0))
        if controls.page:
            self._page()
        else:
            self._lines(controls.panel((HEIGHT * ZOOM - EDGE) // LINE), WIDTH * ZOOM + EDGE, EDGE)
        self._lines(controls.below(), EDGE, HEIGHT * ZOOM + EDGE // 2)
        pygame.display.flip()
        self._clock.tick(FRAMES_PER_SECOND)

    def _page(self) -> None:
        """A long output, over everything except the last lines."""
        self.surface.fill(GROUND, (0, 0, self.surface.get_width(), HEIGHT * ZOOM))
        columns = self.surface.get_width() // max(1, self._font.size("0")[0]) - 3
        self._lines([StyledLine(text) for text in self.controls.wrapped_page(columns)], EDGE, EDGE)

    def _lines(self, lines: list[StyledLine], left: int, top: int) -> None:
        for k, line in enumerate(lines):
            text = f"{line.text}_" if line.tone == "prompt" else line.text
            if text:
                self.surface.blit(self._font.render(text, True, TONES[line.tone]), (left, top + k * LINE))

    def close(self) -> None:
        self._pygame.display.quit()
