"""Choosing backend, envs and workers from measurements."""

from __future__ import annotations

import time

import psutil
import pytest

from conformance.worlds import Counter
from rookery.console import size_text
from rookery.engine.autotune import choose, probe
from rookery.engine.cost_memory import Probe
from rookery.engine.env_factory import resolve
from rookery.engine.machine import available_memory, cpu_quota, usable_cores
from rookery.engine.worker_envs import WorkerEnvs
from rookery.engine.workers.forkserver import SERVERS


def measured(step, cpu_share=1.0, memory=2**20, process_memory=50 * 2**20):
    """A probe's result with a given step time."""
    facts = WorkerEnvs(resolve(Counter)).build([0])
    return Probe(step, cpu_share, 1e-5, 1e-3, memory, process_memory, facts)


@pytest.mark.parametrize(
    ("step", "num_envs", "cores", "backend"),
    [(2e-6, 4, 2, "serial"), (1e-5, 2, 2, "serial"), (1e-5, 64, 2, "process"), (1e-3, 4, 2, "process"),
     (1e-3, 8, 1, "serial"), (1e-4, 16, 16, "process")],
)  # fmt: skip
def test_processes_only_where_they_pay(step, num_envs, cores, backend):
    """Cheap steps and single cores stay in the loop."""
    assert choose(measured(step), num_envs, cores=cores, memory=2**34).backend == backend


def test_a_policy_counts_where_steps_are_cheap():
    """Workers that finish before the policy has acted gain nothing."""
    probe = measured(2e-5)
    assert choose(probe, 16, cores=2, memory=2**34).backend == "process"
    assert choose(probe, 16, cores=2, memory=2**34, policy_seconds=1e-3).backend == "serial"
    assert choose(measured(1e-3), 16, cores=2, memory=2**34, policy_seconds=1e-3).backend == "process"


def test_the_number_of_envs_does_not_follow_the_noise_of_measurements():
    """Measurements that differ by a quarter give one number, within a limit if there is one."""
    steps = (1.2e-5, 1.3e-5, 1.4e-5, 1.6e-5)
    assert {choose(measured(step), cores=2, memory=2**34).num_envs for step in steps} == {64}
    capped = choose(measured(1.3e-5), cores=2, memory=2**34, at_most=8)
    assert (capped.num_envs, capped.useful_envs) == (8, 64)


def test_steps_that_wait_get_more_workers_than_cores():
    """A worker that waits leaves its core to another."""
    assert choose(measured(2e-3, cpu_share=0.02), 16, cores=2, memory=2**34).workers == 16
    assert choose(measured(2e-3, cpu_share=1.0), 16, cores=2, memory=2**34).workers == 2


def test_memory_limits_the_number_of_envs():
    """Envs that take a gigabyte are not started by the dozen."""
    assert choose(measured(1e-3, memory=2**30), cores=16, memory=2**33).num_envs <= 4


def test_what_was_given_is_kept():
    """Only what was left open is chosen."""
    choice = choose(measured(1e-3), num_envs=5, workers=3, backend="process", cores=2, memory=2**34)
    assert (choice.num_envs, choice.workers, choice.backend) == (5, 3, "process")


def test_a_probe_measures_step_and_memory():
    """Step time, waiting and memory are told; the process is gone afterwards. A step takes about 10 us, of which a busy
    machine may give it a part only."""
    before = set(psutil.Process().children())
    result = probe(resolve("CartPole-v1"), seconds=0.1)
    assert 1e-6 < result.step_seconds < 1e-2
    assert 0.02 < result.cpu_share <= 1.0
    assert result.process_memory > 2**20
    servers = {server.pid for server in SERVERS}  # they stay for what comes next
    assert {child for child in psutil.Process().children() if child.pid not in servers} <= before


class SlowFirst(Counter):
    """Its first env in a process takes long, as if it imported something large."""

    built = 0

    def __init__(self):
        if not SlowFirst.built:
            time.sleep(0.5)
        SlowFirst.built += 1
        super().__init__()


def test_the_first_env_does_not_say_how_long_others_take_to_build():
    """Else engines of many envs would seem too slow to start, and `auto` would not measure them."""
    assert probe(resolve(SlowFirst), seconds=0.05).build_seconds < 0.4


def test_cgroup_limits_are_respected(tmp_path):
    """Version 2 files in any ancestor, version 1 files, and none at all."""
    assert cpu_quota(tmp_path) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cpu_quota(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cpu_quota(tmp_path) is None
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("400000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(tmp_path) == 4.0
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert available_memory(tmp_path) == 600000
    assert usable_cores() >= 1
    assert size_text(3 * 2**20) == "3.0 MiB"
