"""A run's cluster as text, from the `cluster/...` values of its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.monitor.formatting import count, percent, plural, size

LEARNER = ("policy", "learner", "gpu", "evaluation")  # parts of the time in which the learner's process works


def cluster_text(
    values: Mapping[str, Any], shares: Mapping[str, float] | None = None, dashboard: str | None = None
) -> list[str]:
    """Nodes, what travels, how old it is, and who has worked how much of the time. [] for a run on one machine.

    >>> figures = {"cluster/nodes": 2, "cluster/collectors": 4, "cluster/bytes_per_second": 1.2e6, "cluster/busy": 0.9}
    >>> cluster_text(figures, {"learner": 0.3, "policy": 0.1, "waiting": 0.55})
    ['2 nodes', '4 collectors', '1.2 MB/s', 'learner 40 %', 'collectors 90 %', 'waiting 55 %']
    >>> cluster_text({**figures, "cluster/in_flight": 8, "cluster/staleness": 3, "cluster/discarded_steps": 64})[2:5]
    ['8 in flight', 'staleness 3', '64 steps discarded']
    """
    if "cluster/collectors" not in values:
        return []
    found = {name.removeprefix("cluster/"): v for name, v in values.items() if name.startswith("cluster/")}
    texts = [plural(int(found[name]), name[:-1]) for name in ("nodes", "collectors", "learners") if name in found]
    if found.get("lost"):
        texts.append(f"{count(found['lost'])} lost")
    if "in_flight" in found:
        texts.append(f"{count(found['in_flight'])} in flight")
    if "staleness" in found:
        texts.append(f"staleness {count(found['staleness'])}")
    if found.get("discarded_steps"):
        texts.append(f"{count(found['discarded_steps'])} steps discarded")
    if "bytes_per_second" in found:
        texts.append(f"{size(found['bytes_per_second'])}/s")
    texts += _time_by_place(found, shares or {})
    return [*texts, f"Ray's dashboard: {dashboard}"] if dashboard else texts


def _time_by_place(found: Mapping[str, Any], shares: Mapping[str, float]) -> list[str]:
    texts = [f"learner {percent(sum(shares.get(part, 0.0) for part in LEARNER))}"] if shares else []
    if "busy" in found:
        texts.append(f"collectors {percent(found['busy'])}")
    return [*texts, f"waiting {percent(shares.get('waiting', 0.0))}"] if shares else texts
