"""What a gate has compared can be looked at afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.deploy.gates import GateResult
from rookery.deploy.promotion import write_compared
from rookery.deploy.registry import Version
from rookery.training.backtest.joined_account import join, read_account
from training.backtest.recorded import random_window


@pytest.fixture
def version(tmp_path: Path) -> Version:
    folder = tmp_path / "versions" / "000002"
    folder.mkdir(parents=True)
    (folder / "version.json").write_text("{}")
    return Version(2, folder)


def test_accounts_are_beside_the_versions(version: Version, tmp_path: Path) -> None:
    account = join([random_window(20)])
    folder = tmp_path / "outputs" / "000002" / "gate"
    write_compared(version, GateResult(True, accounts={"candidate": account, "champion": account}))
    assert len(read_account(folder / "champion.npy")) == 21
    write_compared(version, GateResult(True, accounts={"candidate": account}))
    assert [path.name for path in folder.iterdir()] == ["candidate.npy"]


def test_nothing_is_written_where_no_bars_were_played(version: Version, tmp_path: Path) -> None:
    write_compared(version, GateResult(True))
    assert not (tmp_path / "outputs").exists()


def test_what_cannot_be_written_stops_nothing(
    version: Version, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "outputs").write_text("a file")
    write_compared(version, GateResult(True, accounts={"candidate": join([random_window(20)])}))
    assert "were not written" in caplog.text
