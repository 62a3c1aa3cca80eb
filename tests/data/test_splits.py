"""Splits: nothing that tests is trained on, nor what is near it, and every row is tested equally often."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.future_guard import random_bars
from rookery.data.dataset import Dataset
from rookery.data.splits import Split, combinatorial_purged, holdout, paths, purged_kfold, timeline, walk_forward
from rookery.errors import OptionError

QUICK = settings(max_examples=40, deadline=None)  # a busy machine is slow at times
SIZES = st.tuples(st.integers(100, 300), st.integers(2, 6), st.integers(0, 5), st.integers(0, 5))


def times_tested(splits: list[Split], rows: int) -> np.ndarray:
    return np.bincount(np.concatenate([split.rows("test") for split in splits]), minlength=rows)


def expected_training(split: Split, rows: int, purge: int, embargo: int) -> list[int]:
    """Row by row: a row trains if it is not too near to a row that tests."""
    tests = set(split.rows("test"))
    near = {row + step for row in tests for step in range(-purge, purge + embargo + 1)}
    return [row for row in range(rows) if row not in near]


@QUICK
@given(SIZES)
def test_purged_folds(sizes: tuple[int, int, int, int]) -> None:
    rows, folds, purge, embargo = sizes
    splits = purged_kfold(rows, folds, purge, embargo)
    assert len(splits) == folds and (times_tested(splits, rows) == 1).all()
    for split in splits:
        assert split.rows("train").tolist() == expected_training(split, rows, purge, embargo)


@QUICK
@given(SIZES, st.data())
def test_combinations(sizes: tuple[int, int, int, int], data: st.DataObject) -> None:
    rows, groups, purge, embargo = sizes
    tested = data.draw(st.integers(1, groups - 1))
    splits = combinatorial_purged(rows, groups, tested, purge, embargo)
    assert len(splits) == comb(groups, tested)
    assert (times_tested(splits, rows) == comb(groups - 1, tested - 1)).all()
    for split in splits:
        assert len(split.test) == tested
        assert split.rows("train").tolist() == expected_training(split, rows, purge, embargo)


@QUICK
@given(st.integers(2, 8), st.data())
def test_paths_use_each_test_once(groups: int, data: st.DataObject) -> None:
    tested = data.draw(st.integers(1, groups - 1))
    splits = combinatorial_purged(40 * groups, groups, tested, 0, 0)
    found = paths(groups, tested)
    assert found.shape == (comb(groups - 1, tested - 1), groups)
    used = {(int(split), group) for passed in found for group, split in enumerate(passed)}
    assert used == {(n, int(start) // 40) for n, split in enumerate(splits) for start, _ in split.test}


@QUICK
@given(SIZES, st.booleans(), st.one_of(st.none(), st.floats(0.2, 0.7)))
def test_walking_forward(sizes: tuple[int, int, int, int], expanding: bool, train: float | None) -> None:
    rows, folds, _, embargo = sizes
    splits = walk_forward(rows, folds, train, expanding, embargo)
    first = splits[0].test[0, 0]
    assert len(splits) == folds and times_tested(splits, rows).tolist() == [0] * first + [1] * (rows - first)
    assert train is None or first == round(train * rows)
    for split in splits:
        start = split.test[0, 0]
        assert split.train.tolist() == [[0 if expanding else start - first, start - embargo]]
    lengths = {int(end - start) for split in splits for start, end in split.test}
    assert max(lengths) - min(lengths) <= 1


@QUICK
@given(st.integers(100, 1000), st.floats(0.05, 0.3), st.floats(0.05, 0.3), st.integers(0, 4))
def test_a_holdout_keeps_the_order_of_time(rows: int, validation: float, test: float, embargo: int) -> None:
    split = holdout(rows, validation, test, embargo)
    (train,), (chosen,), (tested,) = split.train, split.validation, split.test
    assert train[0] == 0 and tested[1] == rows
    assert chosen[0] - train[1] == tested[0] - chosen[1] == embargo
    assert tested[1] - tested[0] == round(test * rows)


def test_sizes_as_numbers_of_rows() -> None:
    split = holdout(1000, validation=0, test=200)
    assert (split.train.tolist(), split.validation.tolist(), split.test.tolist()) == ([[0, 800]], [], [[800, 1000]])
    assert [each.test.tolist() for each in walk_forward(1000, 2, train=500)] == [[[500, 750]], [[750, 1000]]]
    assert split.rows("validation").tolist() == []


def test_the_cross_validation_of_the_crypto_search() -> None:
    """4 groups, 2 for test, 50 bars embargo.

    The rows are those of skfolio 1.12.2's CombinatorialPurgedCV. It gave the same rows in all of 305 other
    settings (3 to 8 groups, 2 to 4 for test, purge up to 5, embargo up to 50) in which the groups are equally long. If
    they cannot be, skfolio's last group is longer, and ours differ by one row. Paths were compared for these settings.
    """
    splits = combinatorial_purged(2000)
    assert [split.train.tolist() for split in splits] == [
        [[1050, 2000]], [[550, 1000], [1550, 2000]], [[550, 1500]],
        [[0, 500], [1550, 2000]], [[0, 500], [1050, 1500]], [[0, 1000]],
    ]  # fmt: skip


@QUICK
@given(st.integers(0, 1000))
def test_symbols_are_split_at_the_same_times(seed: int) -> None:
    """Symbols that begin and end at different times, with gaps: no time is in both parts, and none is lost."""
    rng = np.random.default_rng(seed)
    whole = [random_bars(name, 200, seed, start=300 * int(rng.integers(0, 100))) for name in ("A", "B", "C")]
    data = Dataset(tuple(bars.rows(rng.random(200) < 0.8) for bars in whole), 300)
    times = timeline(data)
    assert (np.diff(times) > 0).all() and set(times) == {t for bars in data.bars for t in bars.times}
    for split in combinatorial_purged(len(times), 4, 2, purge=1, embargo=7):
        moments = split.to_times(times)
        for bars in data.bars:
            own = moments.to_rows(bars.times)
            for part in ("train", "test"):
                expected = np.isin(bars.times, times[split.rows(part)])
                assert own.rows(part).tolist() == np.flatnonzero(expected).tolist()


def test_a_symbol_that_began_later_has_fewer_ranges() -> None:
    moments = Split(np.array([[100, 200], [300, 400]]), np.array([[200, 300]]))
    own = moments.to_rows(np.array([300, 310, 399, 400]))
    assert own.train.tolist() == [[0, 3]] and own.test.tolist() == own.validation.tolist() == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: holdout(0), "rows=0: give an integer of at least 1"),
        (lambda: holdout(100, validation=-0.1), "validation=-0.1: give a part of the 100 rows, such as 0.15"),
        (lambda: holdout(100, test=2.5), "test=2.5: give a part"),
        (lambda: holdout(100, test=100), "test=100: give a part"),
        (lambda: holdout(100, 0.6, 0.5), "no rows are left for train: of 100 rows, validation=0.6 and test=0.5"),
        (lambda: holdout(100, embargo=15), "no rows are left for validation"),
        (lambda: holdout(3), "no rows are left for validation"),
        (lambda: walk_forward(100, 1), "folds=1: give an integer of at least 2"),
        (lambda: walk_forward(100, 4, embargo=20), "split 0: purge=0 and embargo=20 leave no rows to train on"),
        (lambda: walk_forward(100, 50, train=0.9), "100 rows are too few for 50 tests"),
        (lambda: purged_kfold(100, 2, embargo=-1), "embargo=-1: give an integer of at least 0"),
        (lambda: purged_kfold(100, 101), "100 rows are too few for 101 tests"),
        (lambda: purged_kfold(100, 2, purge=50), "split 0: purge=50 and embargo=0 leave no rows to train on"),
        (lambda: combinatorial_purged(100, 2, 2), "test_groups=2 of groups=2 leave nothing to train on"),
        (lambda: combinatorial_purged(100, True), "groups=True: give an integer"),
        (lambda: combinatorial_purged(100, 4, purge=0.5), "purge=0.5: give an integer"),
    ],
)
def test_what_cannot_be_split(make, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        make()
    assert message in str(refused.value)
