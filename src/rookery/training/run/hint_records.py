"""Hints that guides of a world gave, on their way to `hints.jsonl`. A full disk must not end the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rookery.monitor.jsonl import append_record, open_append_only
from rookery.training.run.collector import Collector


class HintRecords:
    """Writes what the info `hints` of a step holds: a JSON list of records."""

    def __init__(self, path: Path, collector: Collector, note: Callable[[str], None]) -> None:
        """`note` tells the user something."""
        self._path, self._note = path, note
        self._has_failed = False
        collector.on_hints = self._add

    def _add(self, step: int, rows: slice, infos: dict[str, Any]) -> None:
        """At `step` of the run, hints came to some of the envs `rows`."""
        for k in np.flatnonzero(infos["_hints"]):
            for record in json.loads(infos["hints"][k]):
                self._write({"step": step, "env": rows.start + int(k), **record})

    def _write(self, record: dict[str, Any]) -> None:
        if self._has_failed:
            return
        try:
            with open_append_only(self._path, parents=False) as file:
                append_record(file, json.dumps(record).encode() + b"\n")
        except OSError as error:
            self._has_failed = True
            self._note(f"{self._path.name} cannot be written, the run continues without it: {error}")
