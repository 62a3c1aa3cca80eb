"""Which code made an agent: rookery's version, and a hash of its source files."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import rookery.version


@cache
def code_version() -> dict[str, str]:
    """The version, and the SHA-256 over all of rookery's Python files: it tells changed sources of the same version
    apart."""
    root, digest = Path(rookery.version.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return {"rookery": rookery.version.__version__, "sha256": digest.hexdigest()}
