"""What the log of a registry says about agents: who was compared with whom, which seeds were used, who was champion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery.deploy.audit import Entry
from rookery.deploy.candidate import Candidate
from rookery.deploy.gates.last_segment import share_bars
from rookery.deploy.registered_version import Version
from rookery.deploy.registry import Registry
from rookery.errors import RegistryError

DECISIONS = ("promote", "refuse")


class History:
    """The past of a registry, read once."""

    def __init__(self, registry: Registry) -> None:
        self.entries: Sequence[Entry] = registry.audit() if registry.exists else []
        self._versions = (
            [version for version in registry.versions() if _is_readable(version)] if registry.exists else []
        )

    @property
    def seeds(self) -> set[int]:
        """Seeds of all comparisons, also of those that were never finished."""
        return {entry["evidence"]["seed"] for entry in self._comparisons() if "seed" in entry["evidence"]}

    def comparisons_on(self, segment: str) -> int:
        """How many comparisons were begun on these bars, or on some of them."""
        used = [entry["evidence"]["segment"] for entry in self._comparisons() if "segment" in entry["evidence"]]
        return sum(share_bars(key, segment) for key in used)

    def decision(self, version: int, champion: int | None) -> Entry | None:
        """The last decision about a version against this champion."""
        found = [
            entry for entry in self.entries
            if entry["what"] in DECISIONS and entry.get("version") == version and entry.get("from") == champion
        ]  # fmt: skip
        return found[-1] if found else None

    def promotion(self, version: int) -> Entry | None:
        """When a version was promoted last."""
        found = [entry for entry in self.entries if entry["what"] == "promote" and entry.get("version") == version]
        return found[-1] if found else None

    def version_of(self, candidate: Candidate, step: int) -> Version | None:
        """The version that was made from the same checkpoint."""
        return next((version for version in self._versions if _is_same(version.about, candidate, step)), None)

    def promoted_trial(self, candidate: Candidate) -> int | None:
        """The version by which the candidate's trial, with whatever seed, was promoted before."""
        for version in self._versions:
            if self.promotion(version.number) and _is_same_trial(version.about, candidate):
                return version.number
        return None

    def _comparisons(self) -> list[Entry]:
        return [entry for entry in self.entries if entry["what"] == "compare" and isinstance(entry["evidence"], dict)]


def _is_readable(version: Version) -> bool:
    """Whether a version says what it is. An old one that is damaged must not stop all others."""
    try:
        return bool(version.about)
    except RegistryError:
        return False


def _is_same(about: dict[str, Any], candidate: Candidate, step: int) -> bool:
    mine = candidate.run.id or str(candidate.run.path.resolve())
    theirs = about.get("run_id") or about.get("run_path")
    return mine == theirs and about.get("step") == step


def _is_same_trial(about: dict[str, Any], candidate: Candidate) -> bool:
    """A study that was deleted and begun again has the same name and numbers, and other runs."""
    if candidate.study is None:
        return about.get("run_id") is not None and about["run_id"] == candidate.run.id
    same = about.get("study") == candidate.study.name and about.get("trial") == candidate.trial
    return same and about.get("run_id") in candidate.sibling_ids
