"""Tables that processes share."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from rookery.data import shared_tables
from rookery.data.shared_tables import forget, shared


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    forget()
    return tmp_path


class Builder:
    def __init__(self, size: int = 3) -> None:
        self.calls, self.size = 0, size

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return {"close": np.arange(self.size, dtype=np.float32), "odd/name": np.ones((2, 3))}


def never() -> dict[str, np.ndarray]:
    raise AssertionError("it is built already")


def test_tables_are_built_once_and_are_read_only_maps() -> None:
    build = Builder()
    first = shared("data of today", build)
    forget()  # as another process
    second = shared("data of today", build)
    assert build.calls == 1
    for tables in (first, second):
        assert isinstance(tables["close"], np.memmap) and tables["close"].dtype == np.float32
        assert tables["odd/name"].tolist() == [[1.0] * 3] * 2
        with pytest.raises(ValueError, match="read-only"):
            tables["close"][0] = 1.0


def test_another_key_is_another_table() -> None:
    assert len(shared("a", Builder(3))["close"]) == 3
    assert len(shared("b", Builder(4))["close"]) == 4


@pytest.mark.parametrize("damage", ["changed", "cut", "removed", "index", "pickle"])
def test_damaged_files_are_built_again(damage: str, folder: Path) -> None:
    shared("key", Builder())
    file = next(folder.glob("tables-*/0.npy"))
    if damage == "removed":
        file.unlink()
    elif damage == "index":
        (file.parent / "index.json").write_text("[" * 100_000)
    elif damage == "pickle":
        np.save(file, np.array([{}], object), allow_pickle=True)
    else:
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(bytes(content) if damage == "changed" else bytes(content[:-4]))
    forget()
    build = Builder()
    assert shared("key", build)["close"].tolist() == [0, 1, 2]
    assert build.calls == 1
    forget()
    shared("key", never)


def test_without_a_safe_folder_the_tables_are_in_memory(folder: Path) -> None:
    folder.chmod(0o777)
    tables = shared("key", Builder())
    assert not isinstance(tables["close"], np.memmap) and not tables["close"].flags.writeable
    folder.chmod(0o700)
    assert not any(folder.iterdir())


def test_without_space_the_tables_are_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert shared("key", Builder())["close"].tolist() == [0, 1, 2]
    assert not [path for path in folder.iterdir() if path.is_dir()]


def test_what_was_used_longest_ago_is_removed_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tables, "MOST_BYTES", 40_000)
    (folder / "of-somebody-else").mkdir()
    for age, key in ((300, "a"), (200, "b")):
        shared(key, Builder(4000))
        newest = max(folder.glob("tables-*/"), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (newest.stat().st_mtime - age,) * 2)
    forget()
    shared("a", never)  # used again
    shared("c", Builder(4000))
    forget()
    shared("a", never)
    shared("c", never)
    build = Builder(4000)
    shared("b", build)
    assert build.calls == 1 and (folder / "of-somebody-else").exists()


def _in_process(folder: str, count: multiprocessing.Value) -> None:  # type: ignore[valid-type]
    def build() -> dict[str, np.ndarray]:
        with count.get_lock():  # type: ignore[attr-defined]
            count.value += 1  # type: ignore[attr-defined]
        return {"close": np.arange(100_000)}

    os.environ["ROOKERY_CACHE"] = folder
    assert shared("key", build)["close"][-1] == 99_999


def test_processes_that_start_together_build_once(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    count = context.Value("i", 0)
    workers = [context.Process(target=_in_process, args=(str(folder), count)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert count.value == 1
