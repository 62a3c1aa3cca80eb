"""What must be the same on every node of a run: the versions of what computes, and the files of the user's own code.
To nodes that do not have these files they are sent, and used from a folder of the user's."""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rookery.errors import RunError
from rookery.user_code import SHIPPED, file_here, shipped_at
from rookery.user_dirs import cache_folder, write_own
from rookery.version import __version__

PACKAGES = ("numpy", "torch", "numba", "gymnasium")
MOST_BYTES = 16 << 20  # of files beside those that the run names
Contents = dict[str, bytes]  # of files, by their absolute paths where the learner is


@dataclass(frozen=True)
class NodeFacts:
    """Of one process."""

    node: str
    versions: dict[str, str]
    files: dict[str, str]  # hashes by path; "" of a file that is not there


def facts_here(files: list[str]) -> NodeFacts:
    """Of this process, for these files."""
    versions = {"rookery": __version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in PACKAGES}
    return NodeFacts(platform.node(), versions, {file: _hash(file_here(file)) for file in files})


class NodeProcess:
    """What every process on a node answers. Its subclasses are plain classes: actors of Ray in a run, objects of this
    process in tests."""

    def facts(self, files: list[str], contents: Contents) -> NodeFacts:
        """What is installed here, and what these files contain; if any is missing, their `contents` are used."""
        use_files(files, contents)
        return facts_here(files)

    def pid(self) -> int:
        return os.getpid()


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def check_equal(there: NodeFacts, here: NodeFacts) -> None:
    """Refuse a node on which the same run would be another one.

    >>> here = NodeFacts("a", {"rookery": "1"}, {})
    >>> check_equal(NodeFacts("b", {"rookery": "2"}, {}), here)
    Traceback (most recent call last):
    ...
    rookery.errors.RunError: node b has rookery 2, and a has 1: install the same version on all nodes
    """
    for name, mine in here.versions.items():
        theirs = there.versions.get(name)
        if theirs != mine:
            raise RunError(
                f"node {there.node} has {name} {theirs}, and {here.node} has {mine}: install the same version on all "
                "nodes"
            )
    for file, content in here.files.items():
        if there.files.get(file) == "":
            raise RunError(f"node {there.node} has no file {file}: copy it there, or put it on a shared disk")
        if there.files.get(file) != content:
            raise RunError(f"node {there.node} has another {file} than {here.node}: copy the same one to all nodes")


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
