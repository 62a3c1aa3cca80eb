"""Another agent takes over, and a challenger trades beside the champion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.paper.trading import FREE, bars, bars_of, crypto_run, parity, stored, trade
from rookery.deploy.paper.account import Account
from rookery.deploy.paper.account_files import SHADOW, AccountFolder, Line, read_status
from rookery.deploy.paper.paper import PaperOptions, paper
from rookery.deploy.paper.parity import check_parity
from rookery.deploy.paper.traded_agents import open_agents
from rookery.deploy.registry import Registry
from rookery.errors import OptionError, RegistryError
from rookery.training.storage.run_dir import RunDir


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored(tmp_path_factory.mktemp("data"), bars())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, data: str) -> dict[str, RunDir]:
    """The first two have the same rules; the third may order more at once; the fourth trades one coin."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "first": crypto_run(folder, data), "same rules": crypto_run(folder, data, hidden=6),
        "other rules": crypto_run(folder, data, max_order=0.2),
        "other symbols": crypto_run(folder, data, symbols=["BTC/USD"]),
    }  # fmt: skip


@pytest.fixture
def registry(tmp_path: Path, runs: dict[str, RunDir]) -> Registry:
    made = Registry.create(tmp_path / "agents")
    for run in runs.values():
        made.add(run)
    made.promote(1)
    return made


def promoted_at(registry: Registry, bar: int, version: int) -> Any:
    """Promotes a version while the account has its bar number so-and-so."""

    def on_line(account: Account, line: Line) -> None:
        if account.state.bars == bar and registry.champion_number() != version:
            registry.promote(version)

    return on_line


def versions(lines: list[Line]) -> list[int]:
    return [line["version"] for line in bars_of(lines)]


def traded(registry: Registry, data: str, account: Path, bar: int, version: int, **options: Any) -> list[Line]:
    options = {"limits": FREE, "start": 1, "account": account, **options}
    paper(registry.folder, PaperOptions(data, **options), on_line=promoted_at(registry, bar, version))
    return AccountFolder(account).lines()


def test_positions_are_kept_by_default(registry: Registry, data: str, tmp_path: Path) -> None:
    """The new agent acts at the next bar, without a restart, with what the old one held."""
    lines = traded(registry, data, tmp_path / "a", 40, 2)
    assert versions(lines)[:42] == [1] * 40 + [2] * 2
    assert sum("begin" in line for line in lines) == 1
    assert all(line["closing"] is None for line in bars_of(lines))
    assert np.any(bars_of(lines)[40]["books"][0]["positions"])
    assert parity(registry.folder, tmp_path / "a").first_difference is None


@pytest.mark.few(1)
@pytest.mark.parametrize(("version", "handover"), [(2, "close"), (3, "keep")])
def test_positions_are_closed(registry: Registry, data: str, tmp_path: Path, version: int, handover: str) -> None:
    """If that is requested, or if the rules differ. A new stretch begins with the cash of the old one."""
    lines = traded(registry, data, tmp_path / "a", 40, version, handover=handover)
    found = bars_of(lines)
    assert versions(lines)[39:43] == [1, 1, version, version]
    assert found[40]["closing"] == {"for": "handover", "version": version}
    assert found[41]["begin"]["balances"] == [found[41]["books"][0]["equity"]] == [found[41]["equity"]]
    assert not np.any(found[41]["books"][0]["positions"])
    assert found[41]["orders"] and parity(registry.folder, tmp_path / "a").first_difference is None


@pytest.mark.slow
def test_killed_during_a_handover(registry: Registry, data: str, tmp_path: Path) -> None:
    """The log alone decides how it goes on."""
    whole = traded(registry, data, tmp_path / "a", 40, 3)
    lines = (tmp_path / "a" / "log.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (41, 42, 43):
        account = tmp_path / f"cut{kept}"
        account.mkdir()
        (account / "history.parquet").write_bytes((tmp_path / "a" / "history.parquet").read_bytes())
        (account / "log.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][:30])
        assert trade(registry.folder, data, account) == whole


@pytest.mark.slow
def test_version_that_cannot_take_over(registry: Registry, data: str, tmp_path: Path) -> None:
    """The old one goes on, and it is said why."""
    sent: list[tuple[str, str]] = []

    class Alerts:
        def send(self, kind: str, text: str, facts: Any = None) -> None:
            sent.append((kind, text))

    options = PaperOptions(data, limits=FREE, start=1, account=tmp_path / "a")
    paper(registry.folder, options, on_line=promoted_at(registry, 40, 4), alerts=Alerts())  # type: ignore[arg-type]
    assert set(versions(AccountFolder(tmp_path / "a").lines())) == {1}
    assert len(sent) == 1 and "version 4 cannot take over" in sent[0][1] and "BTC/USD" in sent[0][1]


@pytest.mark.slow
def test_shadow(registry: Registry, data: str, tmp_path: Path) -> None:
    """The challenger has an account and a log of its own, and its end is not the champion's."""
    registry.add(RunDir(registry.version(2).folder))
    trade(registry.folder, data, tmp_path / "alone")
    trade(registry.folder, data, tmp_path / "a", shadow=True, bars=30)
    # The process was killed after the champion's line, and before the challenger's.
    shadow = tmp_path / "a" / SHADOW / "log.jsonl"
    shadow.write_bytes(b"".join(shadow.read_bytes().splitlines(keepends=True)[:-1]))
    trade(registry.folder, data, tmp_path / "a", shadow=True)
    assert (tmp_path / "a" / "log.jsonl").read_bytes() == (tmp_path / "alone" / "log.jsonl").read_bytes()
    champion, challenger = AccountFolder(tmp_path / "a").lines(), AccountFolder(tmp_path / "a" / SHADOW).lines()
    assert [line["time"] for line in bars_of(champion)] == [line["time"] for line in bars_of(challenger)]
    assert set(versions(challenger)) == {5}
    ids = [order["id"] for lines in (champion, challenger) for line in bars_of(lines) for order in line["orders"]]
    assert len(ids) == len(set(ids))
    agents = open_agents(registry.folder).challenger()
    assert check_parity(AccountFolder(tmp_path / "a" / SHADOW), agents).first_difference is None
    status = read_status(AccountFolder(tmp_path / "a"))
    assert status.shadow is not None and status.shadow.version == 5 and status.version == 1


def test_registry_without_champion(tmp_path: Path, data: str) -> None:
    made = Registry.create(tmp_path / "agents")
    with pytest.raises(RegistryError, match="has no champion yet"):
        trade(made.folder, data, tmp_path / "a")


def test_shadow_needs_a_registry(registry: Registry, data: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="a run has none"):
        trade(registry.version(1).folder, data, tmp_path / "run", shadow=True)
