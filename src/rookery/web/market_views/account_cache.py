"""Accounts that were read, kept while somebody looks at them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from rookery.training.backtest.account_file import read_account
from rookery.web.market_views.account_curves import AccountCurves
from rookery.web.market_views.paper_log_reader import PaperLog

MOST_BYTES = 128 << 20  # of files; the newest one is kept, whatever its size
MOST_LOGS = 64


class AccountCache:
    """Files of accounts, and logs of paper accounts. Every method reads files: call it in a thread."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, tuple[Any, AccountCurves]] = OrderedDict()
        self._logs: OrderedDict[Path, PaperLog] = OrderedDict()
        self._lock = threading.Lock()

    def curves(self, path: Path) -> AccountCurves:
        """The account in a file, read again if the file has changed."""
        stamp = _stamp(path)
        with self._lock:
            known = self._files.get(path)
            if known is None or known[0] != stamp:
                known = stamp, AccountCurves.from_rows(read_account(path))
                self._files[path] = known
            self._files.move_to_end(path)
            while len(self._files) > 1 and sum(one.nbytes for _, one in self._files.values()) > MOST_BYTES:
                self._files.popitem(last=False)
            return known[1]

    def log(self, path: Path) -> PaperLog:
        """A log, with what was added to it meanwhile."""
        with self._lock:
            found = self._logs.setdefault(path, PaperLog(path))
            self._logs.move_to_end(path)
            while len(self._logs) > MOST_LOGS:
                self._logs.popitem(last=False)
        found.refresh()
        return found


def _stamp(path: Path) -> tuple[int, int, int]:
    found = os.lstat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns
