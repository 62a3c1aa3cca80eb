"""Learners that compute on GPUs: which one each gets, and by what they sum gradients. GPUs are stand-ins here, but for
the last test."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import rookery
from cluster.in_process import InProcess, use
from cluster.test_same_numbers import run
from cluster.test_several_learners import SHORT, run_learners, trained
from learners.distributed.test_data_parallel_ppo import assert_close
from rookery.cluster.helper_learners import free_gpu
from rookery.cluster.ray_transport import RayTransport
from rookery.errors import ConfigError, RunError
from rookery.learners.execution import ranks
from training.runs import differences


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with the GPUs "a" and "b"."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="ab"[device.index]))


def test_each_learner_has_a_gpu_of_its_own(two_gpus: None) -> None:
    """By their names, as each process counts those that it sees from 0; what NCCL would refuse is rejected before."""
    assert free_gpu(()) == free_gpu(["c"]) == torch.device("cuda", 0)
    assert free_gpu(["a"]) == torch.device("cuda", 1)
    with pytest.raises(RunError, match="NCCL refuses two learners on one GPU"):
        free_gpu(["b", "a"])


def test_a_machine_without_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do, before anything is started."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    cluster = use(InProcess(), monkeypatch)
    with pytest.raises(RunError, match=r"torch finds no GPU here: .* `cluster.learner_device` = \"cpu\""):
        run_learners(tmp_path, "none", 2, cluster={"learner_device": "cuda"})
    assert not cluster.helpers


@pytest.mark.parametrize(("device", "kind"), [("cuda:1", "NcclRanks"), ("cpu", "GlooRanks")])
def test_the_device_decides_by_what_gradients_travel(device: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL between GPUs, gloo between CPUs."""
    for name in ("NcclRanks", "GlooRanks"):
        monkeypatch.setattr(ranks, name, lambda *args, name=name: (name, args))
    made = ranks.open_ranks("store", 1, 2, torch.device(device), "10.0.0.1", 9.0)
    assert made == (kind, ("store", 1, 2, torch.device(device) if kind == "NcclRanks" else "10.0.0.1", 9.0))


class FakeRay:
    """Of Ray what placing needs: nodes with resources, and actors that are not started."""

    def __init__(self, *gpus: int) -> None:
        """The run is on the first node."""
        self._gpus, self.started = gpus, list[tuple[str, float]]()
        affinity = lambda node, soft: node  # noqa: E731
        self.util = SimpleNamespace(scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=affinity))

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "node0")

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": f"node{k}", "Alive": True, "Resources": {"CPU": 4, **({"GPU": count} if count else {})}}
            for k, count in enumerate(self._gpus)
        ]

    def remote(self, num_gpus: float, **options: Any) -> Any:
        def start(node: str) -> object:
            self.started.append((node, num_gpus))
            return object()

        return lambda actor: SimpleNamespace(
            options=lambda scheduling_strategy: SimpleNamespace(remote=lambda: start(scheduling_strategy))
        )

    def kill(self, handle: object) -> None: ...


def test_learners_go_where_gpus_are_free() -> None:
    """One of the run's own node stays with the run; a learner that ends leaves its own to the next one."""
    ray = FakeRay(2, 0, 1)
    transport = RayTransport(ray)
    first = transport.start_helper("learner", on_gpu=True)
    transport.start_helper("learner", on_gpu=True)
    assert ray.started == [("node2", 1), ("node0", 1)]
    with pytest.raises(RunError, match=r"^3 learners have a GPU each.* refuses two learners on one GPU .*has 3\)"):
        transport.start_helper("learner", on_gpu=True)
    transport.kill(first)
    transport.start_helper("learner", on_gpu=True)
    assert ray.started[2:] == [("node2", 1)]


def test_learners_on_cpus_spread_over_the_nodes() -> None:
    """The run's own node comes last; they want no GPU."""
    ray = FakeRay(1, 0, 0)
    transport = RayTransport(ray)
    for _ in range(4):
        transport.start_helper("learner")
    assert ray.started == [("node2", 0), ("node1", 0), ("node0", 0), ("node2", 0)]


@pytest.mark.few(1)
@pytest.mark.parametrize("learners", [1, 2])
def test_the_run_learns_what_its_twin_learns(learners: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy that would be on a GPU makes the updates, and the run goes on with its weights, optimizer and shuffles:
    on a CPU, the bits are those of learners without copies."""
    monkeypatch.setattr("rookery.cluster.helper_learners.free_gpu", lambda taken: torch.device("cpu"))
    use(InProcess(has_own=True), monkeypatch)
    twins = run_learners(tmp_path, "twins", learners, cluster={"learner_device": "cuda"})
    use(InProcess(has_own=True), monkeypatch)
    alone = run_learners(tmp_path, "alone", learners)
    if learners == 1:
        assert_close(trained(twins.path), trained(alone.path))
    else:
        assert not differences(trained(twins.path), trained(alone.path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": {"kind": "local"}}, '`cluster.learner_device` is for runs on a cluster: give `device` = "cuda"'),
        ({"learner": "dqn"}, '`cluster.learner_device` = "cuda" is for ppo: dqn has one learner'),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """In one sentence."""
    cluster = {"kind": "ray", "learner_device": "cuda", **options.pop("cluster", {})}
    with pytest.raises(ConfigError, match=message):
        rookery.train("rookery/CartPole-v1", runs_dir=tmp_path, cluster=cluster, **{"learner": "ppo", **options})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_learns_what_a_cpu_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To float tolerance, with a group of NCCL that has one rank: one GPU is enough for this test."""
    use(InProcess(has_own=True), monkeypatch)
    result = run_learners(tmp_path, "gpu", 1, cluster={"learner_device": "cuda"})
    assert_close(trained(result.path), trained(run(tmp_path, "cpu", **SHORT).path))
