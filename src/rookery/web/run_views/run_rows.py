"""The row of one run in the dashboard's table: that of `rookery runs`, and what a person at a screen wants to know."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.monitor.bottleneck import advise
from rookery.monitor.formatting import duration
from rookery.training.storage.run_groups import experiment
from rookery.training.storage.run_record import RunRecord, number
from rookery.training.storage.runs_table import first_known, row_of

QUIET_SECONDS = 120.0  # without an event, after which a run may be stuck
QUIET_INTERVALS = 20  # or so many times its usual time between events
GAPS = 20  # between the last events, of which the median is the usual time
LONGEST_TEXT = 300
SORTED = json.JSONEncoder(sort_keys=True)
Row = dict[str, Any]


def row_from(place: str, record: RunRecord) -> Row:
    """The row of the run with these files. `stuck` is added by `with_stuck`, as it depends on the time."""
    known, name = row_of(record), record.run.path.name
    del known["path"], known["when"]
    return {**known, "id": f"{place}/{name}", "place": place, "name": name, **_more(record, known)}


def with_stuck(row: Row, quiet_after: float, trouble: str | None, now: float | None = None) -> Row:
    """The row, with a sentence if a running run has been without an event for long."""
    updated = row["updated"]
    silent = (time.time() if now is None else now) - updated if updated is not None else 0.0
    if row["state"] != "running" or silent < quiet_after:
        return {**row, "stuck": None}
    said = f" It last said: {trouble}" if trouble else ""
    # In steps of a minute, so that the row does not change all the time.
    return {**row, "stuck": f"No event for {duration(silent // 60 * 60)}.{said}"}


def quiet_after(record: RunRecord) -> float:
    """Seconds without an event after which the run is called stuck: long, for a run with few events."""
    events = islice(record.latest(), GAPS)
    times = [moment for event in events if (moment := number(event.get("time"))) is not None]
    gaps = [later - earlier for later, earlier in pairwise(times) if later > earlier]
    return max(QUIET_SECONDS, QUIET_INTERVALS * sorted(gaps)[len(gaps) // 2]) if gaps else 5 * QUIET_SECONDS


def last_words(record: RunRecord) -> str | None:
    """The text of the last event, if it is a note: what a worker or an env did before it became silent."""
    text = record.last.get("text") if record.last.get("kind") == "note" else None
    return printable(text)[:LONGEST_TEXT] if isinstance(text, str) else None


def _more(record: RunRecord, known: Row) -> Row:
    config, start, progress, last = record.config, record.start, record.progress, record.last
    total = first_known(number(config.get("steps")), number(start.get("steps")))
    running = known["state"] == "running"
    return {
        "total_steps": total,
        "share": _share(known["steps"], total, progress, record),
        "return": _episode_return(record),
        "eta_seconds": number(progress.get("eta_seconds")) if running else None,
        "bottleneck": _bottleneck(progress, {**start, **_facts(config)}),
        "seed": first_known(number(config.get("seed")), number(start.get("seed"))),
        "group": group_of(config),
        "created": first_known(number(record.birth.get("created")), number(start.get("time"))),
        "updated": first_known(number(last.get("time")), _modified(record.run.path)),
    }


def group_of(config: Mapping[str, Any]) -> str | None:
    """A short hash that runs have in common which differ in their seeds alone."""
    if not config:
        return None
    text = SORTED.encode(experiment(config))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _share(steps: float | None, total: float | None, progress: Mapping[str, Any], record: RunRecord) -> float | None:
    """How much of the run is done. A run by episodes says so itself."""
    if str(record.last.get("reason", "")).startswith("finished"):
        return 1.0
    if total and steps is not None:
        return min(1.0, max(0.0, steps / total))
    return number(progress.get("share"))


def _episode_return(record: RunRecord) -> float | None:
    """The mean return of the last episodes, which the progress events and the end tell."""
    last = number(record.progress.get("episode/return"))
    if last is None:
        last = number(record.last_event(lambda event: "episode/return" in event).get("episode/return"))
    return first_known(last, number(record.last.get("return_last_100")), number(record.summary.get("return_last_100")))


def _bottleneck(progress: Mapping[str, Any], facts: Mapping[str, Any]) -> str | None:
    try:
        return printable(advise(progress, facts)) or None
    except (TypeError, ValueError, OverflowError):  # figures or facts that somebody has written by hand
        return None


def _facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a resumed run may have changed since its first start."""
    names = ("backend", "num_envs", "workers", "groups", "device", "learner")
    return {name: config[name] for name in names if config.get(name) is not None}


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
