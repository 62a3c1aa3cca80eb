"""Reads a long metrics file into columns, as a process of its own: `python -m ... METRICS FOLDER`."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from rookery.web.run_views.column_cache import ColumnWriter, forget_oldest
from rookery.web.run_views.line_chunks import read_lines
from rookery.web.run_views.line_samples import LineFile

TOGETHER = 1 << 23  # bytes of lines between two writes
SAVE_SECONDS = 2.0
NICE = 10


def build(metrics: Path, folder: Path) -> None:
    """Bring the columns up to the last complete line of the metrics."""
    with LineFile(metrics) as file:
        writer = ColumnWriter(folder, file)
        saved = time.monotonic()
        while True:
            chunk, end = read_lines(file, writer.known.offset, writer.known.offset + TOGETHER)
            if end == writer.known.offset:
                break
            writer.add(chunk, end)
            if time.monotonic() - saved > SAVE_SECONDS:
                writer.save()
                saved = time.monotonic()
        writer.save()
    forget_oldest(folder.parent, keep=folder)


def main() -> None:
    """Build; a training run beside it comes first."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    with suppress(FileNotFoundError):  # the run was deleted meanwhile
        build(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
