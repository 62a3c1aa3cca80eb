"""A version in a registry: an agent that never changes again, with what is known about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rookery.training.storage.registry_folder import read_about
from rookery.training.storage.run_dir import RunDir


@dataclass(frozen=True)
class Version:
    """An immutable version. Its folder is a run's folder with one checkpoint, so that every verb takes its path."""

    number: int
    folder: Path

    @property
    def run(self) -> RunDir:
        """The run's folder: the configuration and the one checkpoint."""
        return RunDir(self.folder)

    @cached_property
    def about(self) -> dict[str, Any]:
        """World, study, trial, data hash, code version, evaluation, when it was added, and the SHA-256 of its files."""
        return read_about(self.folder)
