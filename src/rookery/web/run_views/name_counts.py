"""The names of metrics in files that are read whole, with the number of their values."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from rookery.web.run_views.column_cache import check_of
from rookery.web.run_views.few_metrics import counted_names
from rookery.web.run_views.line_samples import LineFile

MOST_KEPT = 1000  # files
BLOCK = 1 << 20  # bytes that are read at once


@dataclass(frozen=True)
class _Counted:
    """What was counted in the first bytes of a file."""

    inode: int
    check: str
    offset: int
    counts: dict[str, int]


class NameCounts:
    """Remembers what it has counted: of a file that has grown, only the new lines are read."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, _Counted] = OrderedDict()
        self._lock = Lock()

    def of(self, metrics: Path, file: LineFile) -> dict[str, int]:
        """The names in the order of their appearance. It reads the file: call it in a thread."""
        with self._lock:
            known = self._known.get(metrics)
        if known is None or not _is_true(known, file):
            known = _Counted(file.inode, "", 0, {})
        counts, at = dict(known.counts), known.offset
        while at < file.size:
            lines, end = file.complete_lines(at, BLOCK)
            if end == at:
                break
            for name, count in counted_names(lines).items():
                counts[name] = counts.get(name, 0) + count
            at = end
        self._keep(metrics, _Counted(file.inode, check_of(file, at), at, counts))
        return counts

    def _keep(self, metrics: Path, counted: _Counted) -> None:
        with self._lock:
            self._known[metrics] = counted
            self._known.move_to_end(metrics)
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)


def _is_true(known: _Counted, file: LineFile) -> bool:
    return known.inode == file.inode and known.offset <= file.size and known.check == check_of(file, known.offset)
