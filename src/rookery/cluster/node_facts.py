"""What must be the same on every node of a run: the versions of what computes, and the files of the user's own code."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rookery.errors import RunError
from rookery.user_code import file_here
from rookery.version import __version__

PACKAGES = ("numpy", "torch", "numba", "gymnasium")


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
