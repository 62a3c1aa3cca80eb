"""Imports of optional packages, with an error that names the extra to install."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.util import find_spec
from typing import Any

from rookery.errors import MissingExtra, UsageError

# Packages that are installed by another name than the one they are imported by.
INSTALLED_AS = {
    "Box2D": "'gymnasium[box2d]'", "PIL": "pillow", "ale_py": "ale-py", "bs4": "beautifulsoup4", "cv2": "opencv-python",
    "mujoco": "'rookery[mujoco]'", "sklearn": "scikit-learn", "skimage": "scikit-image", "yaml": "pyyaml",
    "gym": "gymnasium",
}  # fmt: skip


def missing_package(error: BaseException) -> str:
    """What is missing and the command that installs it, if the error means that a package is not installed; else "".

    >>> missing_package(ModuleNotFoundError("No module named 'no_such_package.part'"))
    'the package no_such_package is not installed: pip install no_such_package'
    """
    commands = re.findall(r"`(pip install [^`]+)`", str(error))
    if type(error).__name__ == "DependencyNotInstalled" and commands:  # of Gymnasium
        return f"a package is not installed: {' && '.join(commands)}"
    named = re.match(r"No module named '(\w+)", str(error)) if isinstance(error, ImportError) else None
    if named is None or find_spec(named[1]) is not None:  # a part of an installed package is missing: a mistake
        return ""
    return f"the package {named[1]} is not installed: pip install {INSTALLED_AS.get(named[1], named[1])}"


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
            f"pictures are encoded by Pillow, which cannot be imported ({error}): pip install 'rookery[render]'"
        ) from None
    return Image


_polars: dict[str, bool] = {"used": False, "lost": False}


def load_polars() -> Any:
    """Import polars, which reads and writes Parquet and CSV files. Its threads do not survive a fork, so that a forked
    child would wait for them forever: there it is rejected."""
    if _polars["lost"]:
        raise UsageError(
            "polars was used before this process was forked, and would hang here: start workers by "
            'start_method="forkserver" or "spawn", or open the data in the main process'
        )
    _polars["used"] = True
    try:
        import polars
    except ImportError as error:
        raise MissingExtra(
            f"files of bars are read and written by polars, which cannot be imported ({error}): "
            "pip install 'rookery[data]'"
        ) from None
    return polars


def _lose_polars() -> None:
    _polars["lost"] = _polars["used"]


if hasattr(os, "register_at_fork"):  # only where processes can fork
    os.register_at_fork(after_in_child=_lose_polars)
