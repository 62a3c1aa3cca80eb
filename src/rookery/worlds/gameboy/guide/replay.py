"""Hints of an earlier run, from its hints.jsonl: given at the same steps of the same envs, so that a run repeats
exactly."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from rookery.errors import OptionError
from rookery.files import read_plain

LARGEST = 256 << 20  # bytes of a file of hints
Recorded = dict[tuple[int, int], dict[str, Any]]  # by the env's seed and its step


def recorded_hints(path: str) -> Recorded:
    """All hints of a file that were followed."""
    file = Path(path)
    try:
        return _read(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise OptionError(f"guide={path!r}: the hints cannot be read ({error.strerror or error})") from None


@lru_cache(maxsize=4)
def _read(file: Path, changed: int) -> Recorded:
    found: Recorded = {}
    for number, line in enumerate(read_plain(file, LARGEST).splitlines(), 1):
        try:
            record = json.loads(line)
            place = int(record["seed"]), int(record["env_step"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise OptionError(f"guide={str(file)!r}: line {number} is no record of a hint") from None
        if "hint" in record:
            found[place] = record["hint"]
    return found
