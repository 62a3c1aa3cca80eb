"""The number of threads: measured once, kept, and the same for all who share a machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from rookery.learners import cpu_threads
from rookery.learners.cpu_threads import choose_threads, keep_memory


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; returns the file in it."""
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "threads.json"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Measurements that find 2 threads best; grows by one for each."""
    calls: list[int] = []

    def measure(work: object, cores: int, *more: object) -> int:
        calls.append(cores)
        return 2

    monkeypatch.setattr(cpu_threads, "_measure", measure)
    return calls


def nothing() -> None:
    pass


def test_a_choice_is_remembered(cache: Path, measured: list[int]) -> None:
    """The second time, nothing is measured; another label or number of cores is another choice."""
    assert [choose_threads(nothing, "ppo 64", 4) for _ in range(3)] == [2, 2, 2]
    assert measured == [4]
    choose_threads(nothing, "ppo 65", 4)
    choose_threads(nothing, "ppo 64", 8)
    assert measured == [4, 4, 8]
    assert len(json.loads(cache.read_text())) == 3
    assert os.listdir(cache.parent) == ["threads.json"]


def test_the_first_to_write_decides(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process wrote its choice in the meantime, that one holds for both."""

    def measure_slowly(work: object, cores: int, *more: object) -> int:
        monkeypatch.setattr(cpu_threads, "_measure", lambda work, cores, *more: 4)
        assert choose_threads(nothing, "ppo", 4) == 4  # the other process
        return 2

    monkeypatch.setattr(cpu_threads, "_measure", measure_slowly)
    assert choose_threads(nothing, "ppo", 4) == 4
    assert choose_threads(nothing, "ppo", 4) == 4


@pytest.mark.parametrize("contents", [b"", b"{", b"[1]", b"\xff\xfe\x00", b'{"a": "many"}', b"null"])
def test_an_unreadable_cache_is_replaced(cache: Path, measured: list[int], contents: bytes) -> None:
    """Whatever stands in the file, the choice is made and kept."""
    cache.parent.mkdir()
    cache.write_bytes(contents)
    assert choose_threads(nothing, "ppo", 4) == 2
    assert choose_threads(nothing, "ppo", 4) == 2
    assert measured == [4]


def test_senseless_numbers_are_not_believed(cache: Path, measured: list[int]) -> None:
    """A count of 0 threads, or half a thread, is measured again."""
    for value in (0, -1, 0.5, "3", None):
        choose_threads(nothing, "ppo", 4)
        key = next(iter(json.loads(cache.read_text())))
        cache.write_text(json.dumps({key: value}))
        assert choose_threads(nothing, "ppo", 4) == 2


def test_without_a_place_to_write_the_measurement_counts(cache: Path, measured: list[int]) -> None:
    """Where nothing can be kept, each call measures, and what it measured is used."""
    cache.parent.write_text("a file where the folder should be")
    assert [choose_threads(nothing, "ppo", 4) for _ in range(2)] == [2, 2]
    assert measured == [4, 4]


def test_one_core_needs_no_measurement(cache: Path, measured: list[int]) -> None:
    """There is nothing to choose, and nothing is written."""
    assert choose_threads(nothing, "ppo", 1) == 1
    assert measured == []
    assert not cache.exists()


def test_measuring_tries_the_candidates_and_leaves_the_setting_alone(cache: Path) -> None:
    """Work runs under 1 and 2 threads in turns; afterwards, also after an error, torch has as many as before."""
    seen: list[int] = []
    assert choose_threads(lambda: seen.append(torch.get_num_threads()), "ppo", 3) in (1, 2)
    assert set(seen) == {1, 2}
    assert torch.get_num_threads() == 1

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        choose_threads(fail, "other", 3)
    assert torch.get_num_threads() == 1


def test_threads_must_be_worth_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread is taken only for a clear gain: 1.25 times as fast is too little, twice is enough."""
    for label, seconds, best in [("slight", {1: 1.0, 2: 0.8}, 1), ("clear", {1: 1.0, 2: 0.5}, 2)]:
        clock = [0.0]

        def work(seconds: dict[int, float] = seconds, clock: list[float] = clock) -> None:
            clock[0] += seconds[torch.get_num_threads()]

        monkeypatch.setattr(cpu_threads.time, "perf_counter", lambda clock=clock: clock[0])
        assert choose_threads(work, label, 2) == best


def test_keeping_memory_can_be_asked_for_twice() -> None:
    """It changes how memory is kept, and nothing that is computed."""
    keep_memory()
    keep_memory()
    assert torch.ones(1 << 18).sum().item() == 1 << 18


@pytest.mark.parametrize(
    ("machine", "rows", "plain"), [("aarch64", 256, True), ("aarch64", 4096, False), ("x86_64", 256, False)]
)
def test_small_products_on_arm_do_without_onednn(monkeypatch, machine, rows, plain):
    """Only there, only while they are small, and only within the block."""
    learner = SimpleNamespace(policy=nn.Linear(64, 64), update_rows=rows)
    monkeypatch.setattr(cpu_threads.platform, "machine", lambda: machine)
    before = torch.backends.mkldnn.enabled
    with cpu_threads.small_products(learner):
        assert torch.backends.mkldnn.enabled == (before and not plain)
    assert torch.backends.mkldnn.enabled == before
