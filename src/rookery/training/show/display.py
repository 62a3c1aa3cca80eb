"""Whether there is a display for windows, and rendering without one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rookery.errors import RunError

HEADLESS = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


def has_display() -> bool:
    """Whether a window can probably be opened."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in DISPLAYS)


def check_display() -> None:
    """Raise if there is no display for a window, before some library does so with a less clear message."""
    if not has_display():
        raise RunError(
            "there is no screen for a window here: neither DISPLAY nor WAYLAND_DISPLAY is set; write a video file "
            "instead"
        )


@contextmanager
def headless() -> Iterator[None]:
    """Without a display, make SDL and MuJoCo render offscreen: otherwise they search for one and fail."""
    unset = [name for name in HEADLESS if name not in os.environ and not has_display()]
    os.environ.update({name: HEADLESS[name] for name in unset})
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)


def render_hint() -> str:
    """What may help after `env.render()` has failed."""
    if "mujoco" not in sys.modules:
        return ""
    return f"; MuJoCo rendered with MUJOCO_GL={os.environ.get('MUJOCO_GL', 'glfw')}; there are glfw, egl and osmesa"
