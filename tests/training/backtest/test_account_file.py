"""An account is written bar by bar, and what is no such file is rejected."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from rookery.errors import FileError
from rookery.training.backtest import joined_account
from rookery.training.backtest.backtest import make_report
from rookery.training.backtest.joined_account import account_rows, join, read_account, write_account
from training.backtest.recorded import DAY, START, market, random_window, window


def test_an_account_is_read_as_it_was_written(tmp_path: Path) -> None:
    account = join([random_window(40, 3)])
    write_account(tmp_path / "account.npy", account)
    rows = read_account(tmp_path / "account.npy")
    assert np.array_equal(rows["time"], account.times)
    for name, equity in account.equity.items():
        assert np.array_equal(rows[name], equity)
    assert np.array_equal(rows["fees"][1:], account.costs["fees"]) and rows["fees"].sum() > 0
    assert rows["traded"][0] == 0 and np.array_equal(rows["traded"][1:], account.traded)
    for symbol, weights in account.weights.items():
        assert np.array_equal(rows[f"weight {symbol}"][1:], weights.astype(np.float32))


def test_a_report_has_its_account_and_those_of_its_folds(tmp_path: Path) -> None:
    windows = [window([1, 2, 3], [5, 5], fold=1), window([3, 2, 3], [5, 5], fold=2, start=START + DAY)]
    report = make_report(windows, market(), {"run": "a", "split": "test"})
    report.write(tmp_path)
    assert len(read_account(tmp_path / joined_account.NAME)) == 5
    for row in report["by_fold"]:
        fold = read_account(tmp_path / f"fold-{row['fold']}.npy")
        assert fold["agent"][-1] / fold["agent"][0] - 1 == pytest.approx(row["agent"]["total_return"])
        assert row["bars"] == len(fold) - 1 and row["costs"]["total"] == pytest.approx(fold["fees"].sum())


def test_symbols_of_any_language_are_kept(tmp_path: Path) -> None:
    account = join([window([1, 2], [5], symbols=("π/€",))])
    write_account(tmp_path / "account.npy", account)
    assert "weight π/€" in read_account(tmp_path / "account.npy").dtype.names


def saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def broken() -> dict[str, bytes]:
    rows = account_rows(join([random_window(20)]))
    whole = saved(rows)
    backwards = rows.copy()
    backwards["time"] = rows["time"][::-1]
    return {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "text": b"not an account",
        "pickle": saved(np.array([{"a": 1}], dtype=object)),
        "huge": whole.replace(b"(21,)", b"(99999999999999,)"),
        "other fields": saved(np.zeros(3, [("time", "<i8")])),
        "backwards": saved(backwards),
        "no rows": saved(rows[:0]),
        "nested": b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000,
    }


@pytest.mark.parametrize("case", broken())
def test_what_is_no_account_is_refused(tmp_path: Path, case: str) -> None:
    path = tmp_path / "account.npy"
    path.write_bytes(broken()[case])
    with pytest.raises(FileError, match="holds no account"):
        read_account(path)


def test_links_and_huge_files_are_refused(tmp_path: Path) -> None:
    write_account(tmp_path / "real.npy", join([random_window(20)]))
    (tmp_path / "account.npy").symlink_to("real.npy")
    with pytest.raises(FileError, match="link"):
        read_account(tmp_path / "account.npy")
    os.truncate(tmp_path / "real.npy", joined_account.LARGEST + 1)
    with pytest.raises(FileError, match="256 MiB"):
        read_account(tmp_path / "real.npy")
