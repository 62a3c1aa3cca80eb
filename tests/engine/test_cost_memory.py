"""What was measured before on this machine is not measured again."""

from __future__ import annotations

import json
import time

import pytest

import rookery
from conformance.worlds import Counter
from rookery.engine import autotune, cost_memory
from rookery.engine.cost_memory import Cost, likely_workers, recall, remember
from rookery.engine.env_factory import resolve, resolve_given
from rookery.engine.worker_envs import WorkerEnvs

COST = Cost(2e-5, 1.0, 1e-5, 1e-3, 4096, 2**25)


class Sleeper(Counter):
    """Its steps wait."""

    def step(self, action):
        time.sleep(0.05)
        return super().step(action)


@pytest.fixture
def probes(monkeypatch):
    """Grows with each measurement."""
    made, probe = [], autotune.probe

    def counted(*args, **kwargs):
        made.append(args)
        return probe(*args, **kwargs)

    monkeypatch.setattr(autotune, "probe", counted)
    monkeypatch.setattr(autotune, "DISTURBED", 1e9)  # however busy this machine is
    return made


def test_auto_measures_a_world_once(probes):
    """The second engine is chosen from what is remembered, and is the same."""
    first = rookery.make_vec(Counter, backend="auto")
    second = rookery.make_vec(Counter, backend="auto")
    assert len(probes) == 1
    assert (first.num_envs, first.backend) == (second.num_envs, second.backend)
    first.close()
    second.close()


def test_a_measurement_that_was_disturbed_is_not_remembered(monkeypatch):
    """Time that the machine under a virtual one gave to others counts as disturbed: here all of it."""
    clock = iter([0.0, 1e9])
    monkeypatch.setattr(autotune, "stolen_seconds", lambda: next(clock))
    measured = autotune._measure(WorkerEnvs(resolve(Counter)), 0.001)
    assert measured.disturbed_share > 1 and measured.step_seconds > 0
    monkeypatch.setattr(autotune, "probe", lambda *args, **options: measured)
    assert autotune.cost_of(resolve(Counter)) == measured
    assert recall(resolve(Counter)) is None


def test_nothing_is_measured_where_the_backend_and_the_number_of_envs_are_given(probes):
    envs = rookery.make_vec(Counter, 3, "process")
    assert envs.workers == likely_workers(resolve(Counter), 3)
    envs.close()
    assert not probes


def test_what_a_world_is_decides_what_is_remembered(tmp_path):
    """Another world, other options or another text of its file are measured again; so is a lambda, always."""
    file = tmp_path / "world.py"
    file.write_text("def build():\n    return 1\n")
    known = resolve("CartPole-v1"), resolve(Counter), resolve_given(f"{file}:build")
    for source in known:
        assert recall(source) is None
        remember(source, COST)
        assert recall(source) == COST
    assert recall(resolve("Acrobot-v1")) is None
    assert recall(resolve("CartPole-v1", kwargs={"sutton_barto_reward": True})) is None
    file.write_text("def build():\n    return 2\n")
    assert recall(known[2]) is None
    remember(resolve(lambda: Counter()), COST)
    assert recall(resolve(lambda: Counter())) is None


@pytest.mark.parametrize("text", ["{", "[]", "3", "null"])
def test_a_file_that_cannot_be_read_is_as_none(tmp_path, text):
    (tmp_path / "costs.json").write_text(text)
    assert recall(resolve("CartPole-v1")) is None
    remember(resolve("CartPole-v1"), COST)
    assert recall(resolve("CartPole-v1")) == COST


@pytest.mark.parametrize(
    "entry",
    [7, [], [1, 2], ["a"] * 7, [0, *COST.numbers], [1e400, *COST.numbers], ["now", -1, 1, 0, 0, 0, 0], None],
    ids=str,
)
def test_an_entry_that_is_none_is_ignored(tmp_path, entry):
    """Also one that is older than a month."""
    source = resolve("CartPole-v1")
    remember(source, COST)
    (key,) = json.loads((tmp_path / "costs.json").read_text())
    if isinstance(entry, list):
        entry = [time.time() if item == "now" else item for item in entry]
    (tmp_path / "costs.json").write_text(json.dumps({key: entry}))
    assert recall(source) is None


def test_steps_that_wait_are_found_while_they_run(monkeypatch, caplog):
    """The engine says that more workers would be faster; the next one has them."""
    caplog.set_level("INFO", logger="rookery")
    monkeypatch.setattr(cost_memory, "WATCHED_SECONDS", 0.3)
    cores = cost_memory.usable_cores()
    count = 4 * cores
    envs = rookery.make_vec(Sleeper, count, "process")
    assert envs.workers == cores
    envs.reset(seed=1)
    for _ in range(4):
        envs.step([0] * count)
    envs.close()
    assert "would be faster" in caplog.text
    later = rookery.make_vec(Sleeper, count, "process")
    assert later.workers > cores
    later.close()
