"""Reads the returns of runs while the server starts, for the first who compares them.

A start is mostly imports, which use one core. The files are read on another: of 250 runs of 1,000 lines, the comparison
is there 0.07 s earlier.
"""

from __future__ import annotations

import os
import threading

from rookery.web.run_folders import RunFolders
from rookery.web.run_views.file_batches import FileBatches

METRICS = ("episode/return",)  # which a comparison shows first
LONGEST = 4 << 20  # bytes of a file; many longer ones take longer than the imports
MOST = 256 << 20  # bytes in a folder
TOGETHER = 32  # files, after which it looks whether somebody waits


def read_ahead(folders: RunFolders) -> FileBatches:
    """Begin, in a thread for each folder: a drive may not answer."""
    batches = FileBatches()
    for place in folders.places:
        threading.Thread(target=_read, args=(batches, folders, place), name="rookery ahead", daemon=True).start()
    return batches


def _read(batches: FileBatches, folders: RunFolders, place: str) -> None:
    paths = [os.fsencode(path) + b"/metrics.jsonl" for *_, path in folders.children(place)]
    left = MOST
    for first in range(0, len(paths), TOGETHER):
        if batches.is_asked or left <= 0:
            return
        left -= batches.read(paths[first : first + TOGETHER], METRICS, LONGEST)
