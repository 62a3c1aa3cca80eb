"""Splits of rows in time: which rows train, and which rows test, with rows between them that do neither.

Rows are counted over one symbol, or over the `timeline` of several. `purge` rows before and after a test range are not
trained on, since their rewards or labels may reach into it. Another `embargo` rows after a test range are not trained
on either, since their observations look back into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations, pairwise

import numpy as np

from rookery.data.dataset import Dataset
from rookery.errors import OptionError

NO_ROWS = np.zeros((0, 2), np.int64)
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Split:
    """Which rows are for what.

    Attributes:
        train: The ranges to learn from: an int64 array (ranges, 2) of first row and last row + 1, in order.
        test: The ranges to report on.
        validation: The ranges to choose by, such as the best checkpoint; often none.
    """

    train: np.ndarray
    test: np.ndarray
    validation: np.ndarray = field(default_factory=lambda: NO_ROWS)

    def rows(self, part: str) -> np.ndarray:
        """All rows of "train", "validation" or "test"."""
        return np.concatenate([np.arange(*each) for each in getattr(self, part)] or [np.zeros(0, np.int64)])

    def to_times(self, timeline: np.ndarray) -> Split:
        """The same ranges as seconds since 1970: a bar is in one if it is complete from its first second to before its
        last. `timeline` has the time of each row."""
        return Split(*(_times(getattr(self, part), timeline) for part in ("train", "test", "validation")))

    def to_rows(self, times: np.ndarray) -> Split:
        """From ranges of seconds to the rows of a symbol with these times. Ranges without a row are dropped."""
        return Split(*(_rows(getattr(self, part), times) for part in ("train", "test", "validation")))


def timeline(dataset: Dataset) -> np.ndarray:
    """The times at which at least one symbol has a bar, rising: the rows of a split over several symbols."""
    return reduce(np.union1d, [bars.times for bars in dataset.bars], np.zeros(0, np.int64))


def holdout(rows: int, validation: float = 0.15, test: float = 0.15, embargo: int = 0) -> Split:
    """One split in the order of time: train, then validation, then test, with `embargo` rows between them.

    Args:
        rows: How many rows there are.
        validation: The part of the rows for validation, or their number if it is 1 or more; 0 for none.
        test: The same for the test.
        embargo: How many rows at the end of train and of validation are not used.

    >>> split = holdout(1000, validation=0.2, test=0.1, embargo=5)
    >>> split.train.tolist(), split.validation.tolist(), split.test.tolist()
    ([[0, 695]], [[700, 895]], [[900, 1000]])
    """
    _check_counts(rows=rows, embargo=embargo)
    end = rows - _part("test", test, rows)
    start = end - _part("validation", validation, rows)
    parts = Split(_range(0, start - embargo), _range(end, rows), _range(start, end - embargo))
    wanted = {"train": 1.0, "validation": validation, "test": test}
    for name in (name for name in PARTS if wanted[name] and not len(getattr(parts, name))):
        raise OptionError(
            f"no rows are left for {name}: of {rows} rows, validation={validation:g} and test={test:g} "
            f"with embargo={embargo}; take more rows, smaller parts or a shorter embargo"
        )
    return parts


def walk_forward(
    rows: int, folds: int, train: float | None = None, expanding: bool = True, embargo: int = 0
) -> list[Split]:
    """Train on the past, test on the rows that follow, `folds` times. Every row after the first train is tested once.

    Args:
        rows: How many rows there are.
        folds: How many splits to make.
        train: The rows before the first test, as a part of all rows, or as a number if it is 1 or more. If omitted,
            as many as one test has.
        expanding: Whether each train begins at row 0. If not, all trains have the length of the first.
        embargo: How many rows before each test are not trained on.

    >>> [(split.train.tolist(), split.test.tolist()) for split in walk_forward(100, folds=3, embargo=2)]
    [([[0, 23]], [[25, 50]]), ([[0, 48]], [[50, 75]]), ([[0, 73]], [[75, 100]])]
    """
    _check_counts(rows=rows, folds=folds, embargo=embargo)
    first = rows // (folds + 1) if train is None else _part("train", train, rows)
    edges = first + np.arange(folds + 1) * (rows - first) // folds
    _check_groups(edges)
    splits = [
        Split(_range(0 if expanding else start - first, start - embargo), _range(start, end))
        for start, end in pairwise(edges.tolist())
    ]
    return _with_training(splits, embargo)


def purged_kfold(rows: int, folds: int, purge: int = 0, embargo: int = 0) -> list[Split]:
    """Each of `folds` stretches is the test once; the rows before and after it train, less those next to it.

    >>> [(split.train.tolist(), split.test.tolist()) for split in purged_kfold(90, 3, purge=1, embargo=2)]
    [([[33, 90]], [[0, 30]]), ([[0, 29], [63, 90]], [[30, 60]]), ([[0, 59]], [[60, 90]])]
    """
    _check_counts(rows=rows, folds=folds)
    return combinatorial_purged(rows, folds, 1, purge, embargo)


def combinatorial_purged(
    rows: int, groups: int = 4, test_groups: int = 2, purge: int = 0, embargo: int = 50
) -> list[Split]:
    """Each choice of `test_groups` of `groups` stretches is the test once: 6 splits with the defaults.

    Every row is tested equally often: in `paths(groups, test_groups)` the tests are joined to several passes over all
    rows. A test has one range per group.

    >>> first, *others = combinatorial_purged(400)
    >>> first.train.tolist(), first.test.tolist(), len(others)
    ([[250, 400]], [[0, 100], [100, 200]], 5)
    """
    _check_counts(rows=rows, groups=groups, test_groups=test_groups, purge=purge, embargo=embargo)
    if test_groups >= groups:
        raise OptionError(f"test_groups={test_groups} of groups={groups} leave nothing to train on: take fewer")
    edges = np.arange(groups + 1) * rows // groups
    _check_groups(edges)
    splits = []
    for chosen in combinations(range(groups), test_groups):
        tests = np.array([edges[group : group + 2] for group in chosen])
        trained = np.ones(rows, bool)
        for start, end in tests:
            trained[max(0, start - purge) : end + purge + embargo] = False
        splits.append(Split(_stretches(trained), tests))
    return _with_training(splits, embargo, purge)


def paths(groups: int = 4, test_groups: int = 2) -> np.ndarray:
    """The passes over all rows that the splits of `combinatorial_purged` contain: (passes, groups) numbers of splits.

    Pass p is made of the test on group g in split `paths(...)[p, g]`, for each g.

    >>> paths(4, 2)
    array([[0, 0, 1, 2],
           [1, 3, 3, 4],
           [2, 4, 5, 5]])
    """
    chosen = list(combinations(range(groups), test_groups))
    return np.array([[split for split, tests in enumerate(chosen) if group in tests] for group in range(groups)]).T


def _check_counts(**counts: int) -> None:
    least = {"rows": 1, "folds": 2, "groups": 2, "test_groups": 1, "purge": 0, "embargo": 0}
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < least[name]:
            raise OptionError(f"{name}={count!r}: give an integer of at least {least[name]}")


def _check_groups(edges: np.ndarray) -> None:
    if (np.diff(edges) < 1).any():
        raise OptionError(f"{edges[-1]} rows are too few for {len(edges) - 1} tests: take more rows or fewer tests")


def _part(name: str, size: float, rows: int) -> int:
    """A part of the rows, below 1, or a number of rows."""
    count = round(size * rows) if 0 <= size < 1 else size
    if not 0 <= count < rows or count != int(count):
        raise OptionError(f"{name}={size!r}: give a part of the {rows} rows, such as 0.15, or a smaller number of rows")
    return int(count)


def _range(start: int, end: int) -> np.ndarray:
    return np.array([[start, end]], np.int64) if start < end else NO_ROWS


def _stretches(chosen: np.ndarray) -> np.ndarray:
    """The ranges of rows that are true."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]])))
    return changes.reshape(-1, 2).astype(np.int64)


def _with_training(splits: list[Split], embargo: int, purge: int = 0) -> list[Split]:
    for number, split in enumerate(splits):
        if not len(split.train):
            raise OptionError(f"split {number}: purge={purge} and embargo={embargo} leave no rows to train on")
    return splits


def _times(ranges: np.ndarray, timeline: np.ndarray) -> np.ndarray:
    return np.column_stack([timeline[ranges[:, 0]], timeline[ranges[:, 1] - 1] + 1]) if len(ranges) else NO_ROWS


def _rows(ranges: Sequence[Sequence[int]] | np.ndarray, times: np.ndarray) -> np.ndarray:
    rows = np.searchsorted(times, np.asarray(ranges, np.int64).reshape(-1, 2)).astype(np.int64)
    return rows[rows[:, 0] < rows[:, 1]]
