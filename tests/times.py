"""What each test takes, for `make test-times`: `python tests/times.py FOLDER` prints the report of a run.

A run with ROOKERY_TEST_TIMES=FOLDER writes a row for each phase of each test: seconds by the clock, and of the CPU in
the process of the tests and in the processes that it has waited for, and how many files are open after it.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]
SLOWEST = 50
LARGEST = 10


class Recorder:
    """A plugin that writes the rows of one process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{os.getpid()}.jsonl").absolute()  # a test may change the folder

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        return (yield from self._timed("", "collection"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._timed(item.nodeid, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._timed(item.nodeid, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._timed(item.nodeid, "teardown"))

    def _timed(self, test: str, phase: str) -> Generator[None, Any, Any]:
        began, before = time.perf_counter(), os.times()
        try:
            return (yield)
        finally:
            now, clock = os.times(), time.perf_counter() - began
            own = now.user + now.system - before.user - before.system
            children = now.children_user + now.children_system - before.children_user - before.children_system
            held = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
            row = {"test": test, "phase": phase, "clock": clock, "own": own, "children": children, "files": held}
            with self._file.open("a") as file:
                file.write(json.dumps(row) + "\n")


def report(rows: list[Row]) -> Iterator[str]:
    """The lines of the report."""
    tests = [row for row in rows if row["test"]]
    yield from table("phase", rows, lambda row: row["phase"])
    yield from table("folder", tests, lambda row: "/".join(file_of(row).split("/")[:2]))
    yield from table("file", tests, file_of)
    yield from table(f"the slowest {SLOWEST}", tests, lambda row: row["test"], SLOWEST)
    yield from table(f"the slowest {SLOWEST}, all their cases", tests, family_of, SLOWEST)
    yield from table(f"the {LARGEST} largest files: where to look first", tests, file_of, LARGEST)
    yield from left_open(rows)
    yield from table("all of them", rows, lambda row: "tests and their collection")


def left_open(rows: list[Row]) -> Iterator[str]:
    """The tests that left most files open: a leak, unless they import or compile what stays."""
    more: dict[str, int] = defaultdict(int)
    for before, row in itertools.pairwise(rows):
        more[file_of(row)] += row.get("files", 0) - before.get("files", 0)
    yield f"{'open':>8}  files that stay open after"
    yield from (f"{count:8}  {name}" for name, count in sorted(more.items(), key=lambda item: -item[1])[:LARGEST])
    yield ""


def file_of(row: Row) -> str:
    return str(row["test"].split("::")[0])


def family_of(row: Row) -> str:
    return str(row["test"].split("[")[0])


def table(title: str, rows: Iterable[Row], key: Callable[[Row], str], most: int | None = None) -> Iterator[str]:
    """Sums by a key, the largest first."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    sums = {name: [sum(row[kind] for row in group) for kind in ("own", "children", "clock")]
            for name, group in groups.items()}  # fmt: skip
    yield f"{'CPU s':>8} {'own':>8} {'children':>8} {'clock':>8} {'tests':>6}  {title}"
    for name, (own, children, clock) in sorted(sums.items(), key=lambda item: -item[1][0] - item[1][1])[:most]:
        called = sum(row["phase"] == "call" for row in groups[name])
        yield f"{own + children:8.1f} {own:8.1f} {children:8.1f} {clock:8.1f} {called:6}  {name}"
    yield ""


def read(folder: Path) -> list[Row]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


if __name__ == "__main__":
    print("\n".join(report(read(Path(sys.argv[1])))))
