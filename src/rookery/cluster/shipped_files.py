"""The user's own code on nodes that do not have it: its files are sent there, and used from a folder of the user's."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rookery.user_code import SHIPPED, shipped_at
from rookery.user_dirs import cache_folder, write_own

MOST_BYTES = 16 << 20  # of files beside those that the run names
Contents = dict[str, bytes]  # of files, by their absolute paths where the learner is


def read_files(named: Sequence[str]) -> Contents:
    """The files that a run names, and the .py files beside them, which they may import; only the former if the latter
    are very large."""
    files = {str(Path(name).resolve()) for name in named if Path(name).is_file()}
    beside = {str(file) for name in files for file in Path(name).parent.glob("*.py") if file.is_file()} - files
    small = sum(Path(file).stat().st_size for file in beside) <= MOST_BYTES
    return {file: Path(file).read_bytes() for file in sorted(files | beside if small else files)}


def use_files(named: Sequence[str], contents: Mapping[str, bytes]) -> None:
    """If this node lacks any of the named files, use these contents instead of what is at their paths, in this process
    and in those that it starts. A node that has all of them keeps its own, which are compared."""
    if all(Path(name).is_file() for name in named) or not contents:
        return
    folder = folder_for(contents)
    for path, content in contents.items():
        place = shipped_at(path, folder)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.is_file() or place.read_bytes() != content:
            write_own(place, content)
    os.environ[SHIPPED] = str(folder)


def folder_for(contents: Mapping[str, bytes]) -> Path:
    """Named by what is in it: runs with the same files share it, so that nothing has to be removed."""
    digest = hashlib.sha256()
    for path, content in sorted(contents.items()):
        digest.update(hashlib.sha256(path.encode()).digest() + hashlib.sha256(content).digest())
    base = cache_folder("shipped") or Path(tempfile.mkdtemp(prefix="rookery-shipped-"))
    return base / f"shipped-{digest.hexdigest()[:16]}"
