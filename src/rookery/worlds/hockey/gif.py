"""Records a window as an animated GIF."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.extras import load_pillow

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
