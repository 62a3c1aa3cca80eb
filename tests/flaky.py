"""Runs suspects many times beside busy processes: `python tests/flaky.py [--times 100] [TEST ...]`.

Without names, those that failed in the last `make test` and passed when they ran again alone. Prints how often each
failed, and the first failure of each; the exit status is 1 if any did.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

CACHE = Path(".pytest_cache")  # a folder for each part of the tests; in its `flaky` a name in each line, as JSON
BUSY = "while True: pass"


class Repeat:
    """A plugin that runs each test so many times, each with new fixtures of its own."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.failures: Counter[str] = Counter()
        self.run: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        self.run.append(item.nodeid)
        for _ in range(self.times):
            item._initrequest()  # type: ignore[attr-defined]
            # The parent as what comes next, so that fixtures of the module stay.
            self._count(item, runtestprotocol(item, log=False, nextitem=item.parent))
        item.session._setupstate.teardown_exact(nextitem)
        print(f"{self.failures[item.nodeid]:4} of {self.times} failed: {item.nodeid}", flush=True)
        return True

    def _count(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        failed = [report for report in reports if report.failed]
        if failed and not self.failures[item.nodeid]:
            print(failed[0].longreprtext)
        self.failures[item.nodeid] += bool(failed)


@contextlib.contextmanager
def busy_machine() -> Iterator[None]:
    """One busy process for each core, and one more."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def noted() -> list[str]:
    return sorted({json.loads(line) for file in CACHE.glob("*/flaky") for line in file.read_text().splitlines()})


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run tests many times on a busy machine.")
    parser.add_argument("tests", nargs="*", help="names as pytest takes them; by default, those that were noted")
    parser.add_argument("--times", type=int, default=100, help="how often each runs")
    chosen = parser.parse_args(words)
    if not (names := chosen.tests or noted()):
        print("no test has failed beside others; name some: make test-flaky TESTS='tests/...::test_...'")
        return 0
    repeat = Repeat(chosen.times)
    options = ["-q", "-s", "-p", "no:cacheprovider", "-o", "timeout_func_only=true", "-m", "slow or not slow"]
    with busy_machine():
        status = pytest.main([*options, *names], plugins=[repeat])
    return 1 if status or not repeat.run or repeat.failures.total() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
