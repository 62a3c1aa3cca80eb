"""The lineage of a population: one line of JSON per round, in the folder of its runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.errors import StudyError
from rookery.files import own_folder

LINEAGE = "lineage.jsonl"


def read_lineage(folder: Path) -> list[dict[str, Any]]:
    """The rounds of a population, the first one first. A line that a kill has left incomplete does not count."""
    try:
        lines = (folder / LINEAGE).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise StudyError(f"{folder / LINEAGE} is damaged: {error}") from None


def append_round(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a line that is there after a power cut; the rest of one that a kill has cut is removed."""
    with open(own_folder(folder) / LINEAGE, "ab+") as file:
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def drop_later(folder: Path, step: int) -> list[dict[str, Any]]:
    """Forget rounds after the step that members continue from, as they will be made again; returns the others."""
    rounds = read_lineage(folder)
    kept = [one for one in rounds if one["step"] <= step]
    if len(kept) < len(rounds):
        beside = folder / f"{LINEAGE}.new"
        beside.write_text("".join(json.dumps(one) + "\n" for one in kept))
        beside.replace(folder / LINEAGE)
    return kept
