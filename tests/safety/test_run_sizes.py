"""Runs that are too large are rejected before anything of them is made, with the settings to lower."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rookery.config import build_config, run_size
from rookery.config.run_size import StepSize, check_run_size, check_search_size
from rookery.engine import machine
from rookery.errors import ConfigError, MemoryShortage
from rookery.training.seeds.processes import divide

SECONDS = 5.0  # that an answer may take, on a machine that is not busy
SLACK = 3.0
MOST_MEMORY = 1 << 30
TRAIN = ("train", "CartPole-v1", "--quiet", "--device", "cpu")
SEARCH = ("search", "CartPole-v1", "--quiet", "--device", "cpu")


def _set(words: tuple[str, ...], **values: Any) -> list[str]:
    given = ((name.replace("__", "."), value) for name, value in values.items())
    return [*words, *(word for key, value in given for word in ("--set", f"{key}={value}"))]


# What is rejected by the configuration alone, and the key that is named. None of them may load torch.
COMMANDS: dict[str, tuple[list[str], str]] = {
    "rollout": (_set(TRAIN, ppo__rollout_length=10**18), "ppo.rollout_length"),
    "rollout of the recipe's envs": (_set(TRAIN, ppo__rollout_length=10**10), "ppo.rollout_length"),
    "rollout of many envs": (_set(TRAIN, ppo__rollout_length=10**6, num_envs=10**9), "num_envs"),
    "envs": (_set(TRAIN, num_envs=10**15), "num_envs"),
    "envs in Python": (_set(TRAIN, num_envs=10**15, compiled="false"), "num_envs"),
    "workers": (_set(TRAIN, workers=10**5, num_envs=10**5, backend="process", compiled="false"), "workers"),
    "threads of a kernel": (_set(TRAIN, workers=10**5, num_envs=10**5), "workers"),
    "threads of envs": (_set(TRAIN, workers=10**5, num_envs=10**5, backend="thread", compiled="false"), "workers"),
    "threads of the learner": (_set(TRAIN, ppo__threads=60_000), "ppo.threads"),
    "processes": (_set(TRAIN, devices=10**6), "devices"),
    "wide nets": (_set(TRAIN, ppo__hidden="[2000000,2000000]"), "ppo.hidden"),
    "nets that cannot be saved": (_set(TRAIN, ppo__hidden="[20000,20000]"), "ppo.hidden"),
    "wide nets of dqn": (_set(TRAIN, learner="dqn", dqn__hidden="[2000000,2000000]"), "dqn.hidden"),
    "many layers": (_set(TRAIN, ppo__hidden=f"[{'1,' * 5_000}1]"), "ppo.hidden"),
    "a wide core": (_set(TRAIN, ppo__recurrent=2**30), "ppo.recurrent"),
    "many critics": (
        _set(("train", "Pendulum-v1", "--learner", "td3"), td3__num_critics=1023, td3__hidden="[65536,65536]"),
        "td3.hidden",
    ),
    "replay": (_set(TRAIN, learner="dqn", dqn__buffer_size=10**15), "dqn.buffer_size"),
    "batch": (_set(TRAIN, learner="dqn", dqn__batch_size=10**12), "dqn.batch_size"),
    "queues": (_set(TRAIN, learner="dqn", dqn__n_step=10**12), "dqn.n_step"),
    "updates": (_set(TRAIN, learner="dqn", dqn__updates_per_step=1e300), "dqn.updates_per_step"),
    "epochs": (_set(TRAIN, ppo__epochs=10**12), "ppo.epochs"),
    "evaluations": (_set(TRAIN, evaluation__episodes=10**12), "evaluation.episodes"),
    "collectors": (_set(TRAIN, cluster__kind="ray", cluster__nodes=10**6), "cluster.nodes"),
    "learners": (_set(TRAIN, cluster__kind="ray", cluster__learners=10**6), "cluster.learners"),
    "seeds": ([*TRAIN, "--seeds", str(10**9)], "--seeds"),
    "numbers beyond 2**63": (_set(TRAIN, steps=10**40), "2**63"),
    "population": (_set(SEARCH, search__population__size=10**12), "search.population.size"),
    "workers of a search": (_set(SEARCH, search__workers=10**6, search__n_trials=10**7), "search.jobs"),
    "seeds of a trial": (_set(SEARCH, search__seeds=10**12), "search.seeds"),
    "verified trials": (_set(SEARCH, search__verify=10**12), "search.verify"),
    "resume": (["resume", "RUN", "--trust"], "ppo.rollout_length"),
    "resume with workers": (["resume", "RUN", "--trust", "--set", "workers=100000"], "workers"),
}
# What is rejected once torch is there, or an env is known.
CALLS = {
    "make_vec": ("rookery.make_vec('CartPole-v1', num_envs=10**10)", "num_envs"),
    "make_vec, compiled": ("rookery.make_vec('rookery/CartPole-v1', num_envs=10**11)", "num_envs"),
    "make_vec, workers": (
        "rookery.make_vec('CartPole-v1', num_envs=10**5, workers=10**5, backend='process')",
        "workers",
    ),
    "make_vec, threads": ("rookery.make_vec('rookery/CartPole-v1', num_envs=10**5, workers=10**5)", "workers"),
    "train": (
        "rookery.train('CartPole-v1', device='cpu', verbose=False, ppo={'rollout_length': 10**11})",
        "ppo.rollout_length",
    ),
    "resume": ("rookery.resume('RUN', trust=True, verbose=False)", "ppo.rollout_length"),
    "search": ("rookery.search('CartPole-v1', search={'population': {'size': 10**12}})", "search.population.size"),
}


def _tried(cases: dict[str, tuple[Any, str]], folder: Path) -> dict[str, dict[str, Any]]:
    (folder / "cases.json").write_text(json.dumps([case for case, _ in cases.values()]))
    run = folder / "runs" / "RUN"
    run.mkdir(parents=True)
    stranger = {"world": "CartPole-v1", "learner": "ppo", "num_envs": 8, "device": "cpu", "backend": "kernel"}
    (run / "config.json").write_text(json.dumps(stranger | {"ppo": {"rollout_length": 10**15}}))
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)])}
    command = [sys.executable, "-m", "safety.size_cases", str(folder / "cases.json")]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(answers) == len(cases), ended.stderr[-2000:]
    return dict(zip(cases, answers, strict=True))


def _check_answer(answer: dict[str, Any], key: str) -> None:
    assert answer["status"] == 2 and key in answer["text"], answer["text"]
    assert "Traceback" not in answer["text"]
    assert answer["seconds"] < SECONDS * SLACK
    assert answer["peak"] < MOST_MEMORY


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return _tried(COMMANDS, tmp_path_factory.mktemp("sizes"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_configuration_that_is_too_large_is_refused_at_once(commands: dict[str, Any], name: str) -> None:
    """By one of our errors that names the key, in little time and memory, without torch."""
    _check_answer(commands[name], COMMANDS[name][1])
    assert not commands[name]["torch"]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return _tried(CALLS, tmp_path_factory.mktemp("calls"))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CALLS)
def test_calls_with_sizes_that_are_too_large_are_refused(calls: dict[str, Any], name: str) -> None:
    """Before memory is allocated or a process started, whichever way in."""
    _check_answer(calls[name], CALLS[name][1])


# --- the estimate -----------------------------------------------------------------------------------------------------


def _with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(run_size, "_free_memory", lambda: free)


def test_what_would_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values that an error names pass the same check."""
    _with_free(monkeypatch, 4 << 30)
    given: dict[str, Any] = {"learner": "ppo", "device": "cpu", "num_envs": 1_000}
    with pytest.raises(MemoryShortage, match=r"`ppo\.rollout_length` \(1,000,000 now, ") as caught:
        check_run_size(build_config("CartPole-v1", ppo={"rollout_length": 10**6}, **given))
    fits = int(str(caught.value).partition("1,000,000 now, ")[2].partition(" would")[0].replace(",", ""))
    assert fits > 50_000
    check_run_size(build_config("CartPole-v1", ppo={"rollout_length": fits}, **given))


def test_large_runs_pass_on_large_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory decides, and no constant."""
    large = build_config(
        "CartPole-v1", learner="sac", device="cpu", num_envs=10**6, sac={"buffer_size": 10**10, "hidden": [8192] * 3}
    )
    _with_free(monkeypatch, 2 << 40)
    check_run_size(large)
    _with_free(monkeypatch, 64 << 30)
    with pytest.raises(MemoryShortage, match=r"sac\.buffer_size"):
        check_run_size(large)


def test_what_is_on_a_gpu_is_compared_with_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollout beside a learner on a GPU takes nothing of the host's memory."""
    _with_free(monkeypatch, 2 << 30)
    config = build_config("CartPole-v1", learner="ppo", device="cuda", num_envs=2**16, ppo={"rollout_length": 4096})
    sizes = StepSize(observation=16, action=8, outputs=16, nets=10_000)
    check_run_size(config, sizes, 2**16, device_free=100 << 30)
    with pytest.raises(MemoryShortage, match=r"the GPU has 8\.0 GiB free: lower `num_envs`"):
        check_run_size(config, sizes, 2**16, device_free=8 << 30)
    with pytest.raises(MemoryShortage, match="this machine"):
        check_run_size(config.model_copy(update={"device": "cpu"}), sizes, 2**16)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"league": {"size": 10**12}, "opponents": ["archive"]}, "league.size"),
        ({"phases": [{"until": {"win_rate": 0.9, "games": 10**12}}]}, "phases[].until.games"),
    ],
)
def test_places_on_a_gpu_are_counted(given: dict[str, Any], key: str) -> None:
    """A GPU has places for all agents of a league, and all games of a window; a CPU does not."""
    config = build_config("hockey", learner="ppo", device="cuda", backend="cuda", num_envs=64, **given)
    with pytest.raises(MemoryShortage) as caught:
        check_run_size(config, StepSize(nets=10_000), 64, device_free=100 << 30)
    assert f"`{key}` (1,000,000,000,000 now" in str(caught.value)
    check_run_size(config.model_copy(update={"device": "cpu", "backend": "kernel"}), StepSize(nets=10_000), 64)


def test_a_run_that_may_lower_its_settings_is_told_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_free(monkeypatch, 1 << 30)
    given: dict[str, Any] = {"learner": "ppo", "device": "cpu", "ppo": {"rollout_length": 10**8}}
    with pytest.raises(MemoryShortage) as caught:
        check_run_size(build_config("CartPole-v1", on_out_of_memory="lower", **given))
    lower = caught.value.lower
    assert lower is not None and lower["ppo.rollout_length"][0] == 10**8 > lower["ppo.rollout_length"][1] > 10**6
    with pytest.raises(MemoryShortage) as caught:
        check_run_size(build_config("CartPole-v1", **given))
    assert caught.value.lower is None


def test_a_learner_that_is_open_may_be_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options of a learner that the run may not take refuse nothing yet."""
    _with_free(monkeypatch, 1 << 30)
    both = {"ppo": {"rollout_length": 10**9}, "dqn": {"buffer_size": 1000}}
    check_run_size(build_config("CartPole-v1", device="cpu", **both))
    with pytest.raises(MemoryShortage):
        check_run_size(build_config("CartPole-v1", device="cpu", learner="ppo", **both))


def test_processes_are_limited_by_cores_and_by_the_cgroup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 192)
    most = machine.most_processes(tmp_path)
    assert most == min(192 * machine.PROCESSES_PER_CORE, machine._process_limit())
    (tmp_path / "pids.max").write_text("100\n")
    (tmp_path / "pids.current").write_text("30\n")
    assert machine.most_processes(tmp_path) == 70
    monkeypatch.setattr(machine, "most_processes", lambda: 70)
    check_run_size(build_config("CartPole-v1", workers=70, num_envs=100))
    with pytest.raises(ConfigError, match=r"`workers` = 80 .* about 70"):
        check_run_size(build_config("CartPole-v1", workers=80, num_envs=100))


def test_a_search_counts_the_trials_that_train_as_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_free(monkeypatch, 8 << 30)
    given: dict[str, Any] = {"device": "cpu", "learner": "ppo", "num_envs": 64, "ppo": {"rollout_length": 4096}}
    check_search_size(build_config("CartPole-v1", search={"population": {"size": 8}}, **given))
    with pytest.raises(MemoryShortage, match=r"`search\.population\.size` \(50,000 now"):
        check_search_size(build_config("CartPole-v1", search={"population": {"size": 50_000}}, **given))


def test_runs_at_a_time_need_memory_each() -> None:
    config = build_config("CartPole-v1", learner="ppo")
    assert divide(config, 40, 2, 16 << 30, jobs=20).jobs == 20
    with pytest.raises(MemoryShortage, match=r"1,000 runs at a time"):
        divide(config, 1000, 2, 16 << 30, jobs=10_000)
