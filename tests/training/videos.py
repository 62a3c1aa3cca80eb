"""Reading videos back."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np


def frames_of(path: Path) -> list[np.ndarray]:
    """Its pictures, (height, width, 3)."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
