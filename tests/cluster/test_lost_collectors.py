"""Collectors that die, hang or differ: the run says what happened, and goes on or ends as the config wants."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from cluster.in_process import InProcess, use
from cluster.test_same_numbers import run
from rookery.cluster.collector_actor import CollectorActor
from rookery.cluster.node_facts import NodeFacts
from rookery.cluster.transport import CollectorLost
from rookery.errors import BadValue, ConfigError, RestartLimit, RunError, WorkerDied
from training.runs import differences, last_state, notes

KERNEL = {"world": "rookery/CartPole-v1"}
BROKEN = """
import gymnasium as gym
import numpy as np

class Broken(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(2, np.nan if self.steps > 20 else 0, np.float32), 1.0, False, False, {}
"""


def once(error: Exception, at: int = 3) -> Callable[[int, str, int], Exception | None]:
    """Collector 1 fails once, in its rollout `at`."""
    return lambda index, method, times: error if (index, method, times) == (1, "collect", at) else None


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("error", "words"),
    [(CollectorLost("its node died"), "was lost (its node died)"), (TimeoutError(), "has not answered for 600 s")],
)
def test_a_lost_collector_is_replaced(
    error: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its envs begin again elsewhere; all steps are counted once, and the run names what was lost."""
    cluster = use(InProcess(fault=once(error)), monkeypatch)
    result = run(tmp_path, "lost", 3, **KERNEL)
    assert result.total_steps == 7 * 16 * 20 and cluster.started == [0, 1, 2, 1]
    said = [text for text in notes(result.path) if text.startswith("collector 1 (envs 3 to 4, on node 1.1)")]
    assert words in said[0] and "not counted" in said[0]
    assert any("begin new episodes" in text for text in notes(result.path))


@pytest.mark.slow
def test_one_that_is_lost_while_a_checkpoint_is_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint holds the envs of the one that took over: a run that is resumed from there equals this one."""

    def fault(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("its node died") if (index, method, times) == (1, "state", 0) else None

    half = 7 * 16 * 10
    settings = {**KERNEL, "checkpoints": {"every": half}, "ppo": {"recurrent": 8}}
    use(InProcess(fault=fault), monkeypatch)
    whole = run(tmp_path, "whole", 3, **settings)
    assert whole.total_steps == 2 * half and any("begin new episodes" in text for text in notes(whole.path))
    use(InProcess(fault=fault), monkeypatch)
    begun = run(tmp_path, "begun", 3, steps=half, **settings)
    use(InProcess(), monkeypatch)
    again = rookery.resume(begun.path, steps=2 * half)
    assert not differences(last_state(whole.path), last_state(again.path))


@pytest.mark.slow
def test_the_others_are_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rollout in which a collector was lost has the same rows of all other envs."""
    rollouts: dict[str, list[Any]] = {}
    collect = CollectorActor.collect

    def keep(self: CollectorActor, *args: Any) -> Any:
        part = collect(self, *args)
        kept.setdefault(self.share.index, []).append(part["rollout"]["observation0"].copy())
        return part

    monkeypatch.setattr(CollectorActor, "collect", keep)
    for name, cluster in (("whole", InProcess()), ("lost", InProcess(fault=once(CollectorLost("gone"))))):
        kept: dict[int, list[np.ndarray]] = {}
        use(cluster, monkeypatch)
        run(tmp_path, name, 3, **KERNEL)
        rollouts[name] = kept  # type: ignore[assignment]
    for index in (0, 2):
        assert all(
            np.array_equal(rollouts["whole"][index][k], rollouts["lost"][index][k]) for k in range(4)
        )  # to the rollout in which it was lost; later ones have other weights
    first = rollouts["lost"][1]
    assert np.array_equal(first[2], rollouts["whole"][1][2]) and not np.array_equal(first[3], rollouts["whole"][1][3])


def test_a_run_may_end_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one sentence that names the collector, its envs, its node and the reason."""
    use(InProcess(fault=once(CollectorLost("its node died"))), monkeypatch)
    with pytest.raises(WorkerDied, match=r"^collector 1 \(envs 4 to 6, on node 1\.1\) was lost \(its node died\)$"):
        run(tmp_path, "raise", 2, on_failure="raise", **KERNEL)


def test_restarts_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that is lost again and again ends the run."""

    def fault(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("gone") if index == 1 and method == "collect" and times >= 2 else None

    cluster = use(InProcess(fault=fault), monkeypatch)
    with pytest.raises(RestartLimit, match=r"collector 1 .* after 3 restarts within 60 s \(max_restarts=3\)"):
        run(tmp_path, "limit", 2, max_restarts=3, **KERNEL)
    assert cluster.started == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(("collectors", "envs"), [(2, "0 to 3"), (1, "0 to 6")])
def test_nan_ends_the_run_and_names_the_collector(
    collectors: int, envs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the learner sees it; also in the learner's own process, where the only collector is."""
    (tmp_path / "broken.py").write_text(BROKEN)
    use(InProcess(has_own=collectors == 1), monkeypatch)
    with pytest.raises(BadValue) as error:
        run(tmp_path, "nan", collectors, world=f"{tmp_path}/broken.py:Broken", backend="serial")
    assert f"collector 0 (envs {envs}" in error.value.__notes__[-1]


@pytest.mark.parametrize("what", ["version", "file"])
def test_nodes_that_differ_are_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first step, with both versions or the file."""
    (tmp_path / "broken.py").write_text(BROKEN)

    def facts(self: CollectorActor, files: list[str], contents: dict[str, bytes]) -> NodeFacts:
        here = whole(self, files, contents)
        if what == "version":
            return replace(here, node="far", versions={**here.versions, "rookery": "0.0.1"})
        return replace(here, node="far", files={files[0]: ""})

    whole = CollectorActor.facts
    monkeypatch.setattr(CollectorActor, "facts", facts)
    use(InProcess(), monkeypatch)
    words = "node far has rookery 0.0.1, and .* has" if what == "version" else "node far has no file .*broken.py"
    with pytest.raises(RunError, match=words):
        run(tmp_path, "differs", 2, world=f"{tmp_path}/broken.py:Broken", backend="serial")


@pytest.mark.few(1)
@pytest.mark.parametrize(("collectors", "exact"), [(2, True), (3, False)])
def test_a_resumed_run_continues(collectors: int, exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly with as many collectors; with others all envs begin new episodes, and the run says so."""
    use(InProcess(has_own=True), monkeypatch)
    constant = {**KERNEL, "ppo": {"normalise_rewards": True}}  # a schedule would follow the length of the run
    whole = run(tmp_path, "whole", 2, **constant)
    begun = run(tmp_path, "begun", 2, steps=7 * 16 * 10, **constant)
    again = rookery.resume(begun.path, steps=7 * 16 * 20, cluster={"nodes": collectors})
    assert again.total_steps == whole.total_steps
    assert exact == (not differences(last_state(whole.path)["policy"], last_state(again.path)["policy"]))
    assert exact == (not any("divided over other collectors" in text for text in notes(again.path)))


def interrupt() -> rookery.Callback:
    """Ctrl-C in the third rollout of a run, and not again when it is resumed."""

    class Interrupt(rookery.Callback):
        rollouts = 0

        def on_rollout(self, run: Any) -> None:
            self.rollouts += 1
            if self.rollouts == 3:
                signal.raise_signal(signal.SIGINT)

    return Interrupt()


def test_ctrl_c_saves_and_ends_all_collectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the present rollout; the resumed run equals one that was not interrupted."""
    settings = {**KERNEL, "ppo": {"normalise_rewards": True}}
    use(InProcess(), monkeypatch)
    whole = run(tmp_path, "whole", 2, **settings)
    cluster = use(InProcess(), monkeypatch)
    first = run(tmp_path, "first", 2, callbacks=[interrupt()], **settings)
    assert (first.reason, first.exit_code, first.total_steps) == ("interrupted", 130, 3 * 7 * 16)
    assert not cluster._actors
    use(InProcess(), monkeypatch)
    again = rookery.resume(first.path)
    assert not differences(last_state(whole.path), last_state(again.path))


@pytest.mark.parametrize(
    "options",
    [{"num_envs": "adaptive"}, {"devices": 2}, {"backend": "cuda"}, {"reward_scale": 0.5}],
)
def test_what_a_cluster_cannot_do_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    """Before anything starts."""
    with pytest.raises(ConfigError, match="ray"):
        rookery.train("CartPole-v1", on="ray", runs_dir=tmp_path, **options)
