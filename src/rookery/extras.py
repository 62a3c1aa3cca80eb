"""Imports of optional packages, with an error that names the extra to install."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from rookery.errors import MissingExtra


@cache
def load_pygame() -> Any:
    """Import pygame without its greeting on stdout."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
        import pygame.font
    except ImportError as error:
        raise MissingExtra(
            f"pictures are drawn with pygame, which cannot be imported ({error}): pip install 'rookery[render]'"
        ) from None
    return pygame


def load_pillow() -> Any:
    """Import the module `PIL.Image`."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra(
            f"picture files are written with Pillow, which cannot be imported ({error}): pip install 'rookery[render]'"
        ) from None
    return Image
