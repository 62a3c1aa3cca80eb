"""Ranks whose connections may break."""

from __future__ import annotations

import time

import psutil
import pytest
import torch
import torch.distributed as dist

from learners.distributed.thread_ranks import in_threads
from rookery.learners.execution import ranks as gloo_ranks
from rookery.learners.execution.ranks import GlooRanks, RankLost, open_store, own_address

HERE = "127.0.0.1"


def make_ranks(size: int, name: str = "group", seconds: float = 30.0) -> list[GlooRanks]:
    store = open_store(HERE)

    def make(rank: int) -> GlooRanks:
        mine = store if rank == 0 else dist.TCPStore(HERE, store.port, is_master=False)
        return GlooRanks(dist.PrefixStore(name, mine), rank, size, own_address(HERE, store.port), seconds)

    return in_threads(make, range(size))


def test_they_sum_in_the_order_of_ranks() -> None:
    """Sums of floats depend on their order: all get the same bits."""
    values = [1e8, -1e8, 1.0]
    found = in_threads(lambda ranks: ranks.sum_(torch.tensor([values[ranks.rank]])), make_ranks(3))
    assert [float(total) for total in found] == [1.0, 1.0, 1.0]


def test_one_that_leaves_is_noticed_and_the_group_can_be_made_anew() -> None:
    """At once, and not after the time that they would wait."""
    for name in ("first", "second"):
        one, other = make_ranks(2, name, seconds=600.0)
        in_threads(lambda ranks: ranks.sum_(torch.ones(2)), [one, other])
        other.close()
        with pytest.raises(RankLost):
            one.sum_(torch.ones(2))
        one.close()


def test_one_that_hangs_is_given_up() -> None:
    one, _other = make_ranks(2, seconds=0.5)
    with pytest.raises(RankLost):
        one.sum_(torch.ones(2))


def test_one_that_is_slow_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than for one that does not come."""
    monkeypatch.setattr(gloo_ranks, "CONNECT_SECONDS", 0.5)
    pair = make_ranks(2)

    def late(ranks: GlooRanks) -> torch.Tensor:
        time.sleep(1.5 * ranks.rank)
        return ranks.sum_(torch.ones(1))

    assert [float(total) for total in in_threads(late, pair)] == [2.0, 2.0]


def test_one_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the time that an exchange may take."""
    monkeypatch.setattr(gloo_ranks, "CONNECT_SECONDS", 0.5)
    with pytest.raises(RankLost):
        GlooRanks(open_store(HERE), 0, 2, HERE, 3600.0)


def test_they_listen_at_their_own_address_only() -> None:
    """Nobody else can reach the group."""
    process = psutil.Process()
    before = {each.laddr for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN}
    ranks = make_ranks(2)
    after = {each.laddr for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN}
    assert len(after - before) >= 3 and {place.ip for place in after - before} == {HERE}
    assert [rank.rank for rank in ranks] == [0, 1]
