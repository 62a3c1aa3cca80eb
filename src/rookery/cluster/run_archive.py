"""A run folder as bytes, to travel between machines that share no disk."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path


def pack_run(folder: Path) -> bytes | None:
    """The files of a run folder; None if there is none."""
    if not folder.is_dir():
        return None
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.add(folder, arcname=".")
    return file.getvalue()


def unpack_run(data: bytes, folder: Path) -> None:
    """Replace a run folder by what `pack_run` has packed. Until all files are there, the old folder stays."""
    new = folder.with_name(f".{folder.name}.arriving")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(new, filter="data")  # which refuses links and paths that lead elsewhere
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
