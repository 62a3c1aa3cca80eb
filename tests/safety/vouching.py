"""Checkpoints that are whole, but were not written by rookery."""

from __future__ import annotations

import json
from pathlib import Path

from rookery.training.storage import checkpoint_files


def vouch(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes into a checkpoint, with a manifest that fits."""
    files = json.loads((folder / "manifest.json").read_bytes())["files"]
    for path in (folder / name, folder / "manifest.json"):
        path.unlink()
    files[name] = checkpoint_files.write_file(folder / name, [data])
    checkpoint_files.write_manifest(folder, files, None)
