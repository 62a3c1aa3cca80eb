"""How many workers a search has is corrected by what they use."""

import itertools
from types import SimpleNamespace

import pytest

from rookery.config import build_config
from rookery.studies import worker_count
from rookery.studies.study_config import divided
from rookery.studies.worker_count import WorkerCount, known_count
from rookery.studies.workers import supervisor

GIB = 1 << 30


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A study on a machine of 4 cores, in whose cache nothing is measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for module in (worker_count, "rookery.studies.study_config"):
        path = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{path}.usable_cores", lambda: 4)
        monkeypatch.setattr(f"{path}.available_memory", lambda: 64 * GIB)
    monkeypatch.setattr(worker_count, "allowed_cores", lambda: [0, 1, 2, 3])
    clock = itertools.count(step=11.0)
    monkeypatch.setattr(worker_count, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    return build_config("CartPole-v1", learner="ppo", device="cpu", backend="serial", num_envs=1)


def looks(monkeypatch, base, count, busy_of, times=12, all_train=True):
    """The numbers of workers, one after the other, where so many cores are busy with so many workers."""
    made = []
    monkeypatch.setattr(worker_count, "busy_cores", lambda: busy_of(made[-1] if made else count))
    workers = WorkerCount(base, count)
    for _ in range(times):
        made.append(workers.look(all_train))
    return [number for number, _ in itertools.groupby([count, *made])]


def test_workers_are_added_while_cores_are_idle(monkeypatch, base, caplog):
    caplog.set_level("INFO")
    assert looks(monkeypatch, base, 2, lambda count: 0.25 * count) == [2, 4, 8, 16]
    assert "4 workers from now on: 2 keep 0.5 of 4 cores busy" in caplog.text


def test_workers_that_wait_for_something_else_are_taken_back(monkeypatch, base):
    assert looks(monkeypatch, base, 2, lambda count: 0.5) == [2, 4, 2]


def test_busy_cores_and_waiting_workers_change_nothing(monkeypatch, base):
    assert looks(monkeypatch, base, 4, lambda count: 3.9) == [4]
    assert looks(monkeypatch, base, 4, lambda count: 0.1, all_train=False) == [4]


def test_the_next_search_of_a_world_begins_with_what_was_found(monkeypatch, base):
    assert known_count(base) is None and divided(base).jobs == 4
    looks(monkeypatch, base, 4, lambda count: 0.25 * count)
    assert divided(base).jobs == known_count(base) == 16
    assert divided(base.model_copy(update={"learner": "dqn"})).jobs == 4
    assert looks(monkeypatch, base, 16, lambda count: 0.1) == [16], "it is not measured again"


def test_a_worker_ends_before_memory_does(monkeypatch, base):
    monkeypatch.setattr(worker_count, "available_memory", lambda: GIB // 4)
    assert looks(monkeypatch, base, 4, lambda count: 3.9) == [4, 3, 2, 1]
    assert known_count(base) is None, "other programs may have taken it"


def test_the_supervisor_follows(monkeypatch, base, tmp_path):
    """Those that leave are asked to save, and are not replaced."""
    started, stopped = [], []

    class Worker:
        status, began_any, is_leaving, trials = 143, True, False, {0: None}

        def __init__(self, name, *_):
            self.name = name
            started.append(name)

        def stop(self):
            stopped.append(self.name)

        def kill(self):
            pass

    monkeypatch.setattr(supervisor, "WorkerProcess", Worker)
    (tmp_path / "workers").mkdir()
    folder = SimpleNamespace(workers=tmp_path / "workers", path=tmp_path)
    with supervisor.Supervisor(folder, base, 2, {}) as one:
        wanted = iter([2, 4, 4, 1])
        one._count.look = lambda all_train: setattr(one._count, "count", next(wanted)) or one._count.count
        for _ in range(4):
            one._correct_count()
        assert len(started) == 4 and stopped == started[1:]
        for worker in [worker for worker in one.workers if worker.is_leaving]:
            one._ended(worker)
        assert len(started) == 4 and [worker.name for worker in one.workers] == started[:1]
