"""bench, tune, profile and doctor, by their results rather than their looks."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery import printing
from rookery.engine import contest, loops
from rookery.engine.autotune import Choice
from rookery.engine.contest import EnginePlan
from rookery.engine.cost_memory import Probe
from rookery.engine.env_factory import resolve
from rookery.engine.machine import usable_cores
from rookery.engine.worker_envs import EnvDescription
from rookery.errors import OptionError
from rookery.tools import bench, bench_contenders, doctor, measurements, tune
from rookery.tools.measurements import Trial
from rookery.tools.profile import FunctionTime, StepProfile, advise, profile_steps


class Spin(gym.Env):
    """Burns a little time, in functions with names to look for."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        self.lay_out()
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.simulate()
        return np.zeros(2, np.float32), 1.0, self.time >= 10, False, {}

    def simulate(self) -> None:
        spin(200e-6)

    def lay_out(self) -> None:
        spin(2e-3)


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def cost(step: float = 1e-4, cpu_share: float = 1.0, memory: int = 2**20) -> Probe:
    known = EnvDescription(Spin.observation_space, Spin.action_space, {}, None, None, (False, False))
    return Probe(step, cpu_share, 1e-5, 1e-3, memory, 50 * 2**20, known)


# --- bench ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result() -> bench.BenchResult:
    return bench.bench("CartPole-v1", num_envs=4, seconds=0.3)


@pytest.mark.slow
def test_bench_measures_every_side(result):
    """Every side that is installed has a rate for each round, and the base is rookery's process backend."""
    assert result.base.name == "rookery process"
    for side in result.contenders:
        assert len(side.rates) == (result.rounds if side.status == "ok" else 0)
    measured = {side.name for side in result.contenders if side.status == "ok"}
    assert measured >= {
        "rookery process", "rookery serial", "Gymnasium SyncVectorEnv", "Gymnasium AsyncVectorEnv",
        "SB3 DummyVecEnv", "SB3 SubprocVecEnv",
    }  # fmt: skip


def test_others_step_kernel_worlds_too():
    """As envs of Gymnasium, also where a function returns the world itself."""
    world = type(resolve("rookery/CartPole-v1").make(0).unwrapped.world)
    task = bench_contenders.BenchTask(resolve(world), 2, None)
    assert all(isinstance(make(), gym.Env) for make in task.makers)


@pytest.mark.slow
def test_bench_json_can_be_written(result):
    """The JSON form carries the figures, the ratios, auto's choice and the machine."""
    answer = json.loads(json.dumps(result.as_json()))
    assert answer.keys() == {"env", "num_envs", "seconds", "rounds", "auto", "base", "sides", "machine"}
    assert answer["machine"]["usable_cores"] == usable_cores()
    assert answer["machine"]["versions"]["gymnasium"]
    first = answer["sides"][0]
    assert first["ratio"] == 1.0
    assert first["lowest"] <= first["steps_per_second"] <= first["highest"]
    assert [side["name"] for side in answer["sides"] if side.get("auto")] == [f"rookery {answer['auto']['backend']}"]


def test_plot_is_a_picture(result, tmp_path):
    """The plot is written where and as what it was requested."""
    file = tmp_path / "speed.png"
    bench.check_plot_file(str(file))
    bench.draw(result, str(file))
    assert file.read_bytes().startswith(b"\x89PNG")


def test_missing_peer_is_not_an_error(monkeypatch):
    """A peer that is not installed is shown as such, and the others are measured."""
    monkeypatch.setattr(bench_contenders, "find_spec", lambda name: None)
    found = bench.bench("CartPole-v1", num_envs=2, against=("sb3", "envpool"), seconds=0.1, backends=("serial",))
    assert [(side.name, side.status) for side in found.contenders] == [
        ("rookery serial", "ok"),
        ("SB3 DummyVecEnv", "not installed"),
        ("SB3 SubprocVecEnv", "not installed"),
        ("EnvPool", "not installed"),
    ]


def test_failing_peer_leaves_the_others(monkeypatch):
    """A peer that cannot run the world is marked with its own words, and the others are measured."""

    def refuse(task: bench_contenders.BenchTask) -> Any:
        raise TypeError("I only do images")

    monkeypatch.setattr(bench_contenders, "_gymnasium_sync", refuse)
    found = bench.bench("CartPole-v1", num_envs=2, against=("gymnasium",), seconds=0.1, backends=("serial",))
    status = {side.name: side.status for side in found.contenders}
    assert status["Gymnasium SyncVectorEnv"] == "failed: TypeError: I only do images"
    assert status["Gymnasium AsyncVectorEnv"] == "ok"


def test_peers_that_do_not_fit_are_skipped(monkeypatch):
    """A side with a process for each env is skipped where these would fill the memory."""
    monkeypatch.setattr(bench_contenders, "available_memory", lambda: 100 * 2**20)
    task = bench_contenders.BenchTask(resolve(Spin), 8, cost())
    (_, one_process_each) = bench_contenders.peer_contenders(["gymnasium"])
    one_process_each.open(task)
    assert one_process_each.status == "skipped: 8 processes need 400.0 MiB of memory"


def test_all_sides_get_the_same_actions():
    """Actions are drawn from the space and a seed alone."""
    first, second = (contest.sample_actions(gym.spaces.Box(-1, 1, (3,)), 5) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert first[0].shape == (5, 3)


@pytest.mark.slow
def test_dict_actions_can_be_measured():
    """A world with a Dict action space is measured on rookery and on Gymnasium."""

    class Buttons(Spin):
        action_space = gym.spaces.Dict({"push": gym.spaces.Discrete(2), "turn": gym.spaces.Box(-1, 1, (2,))})

    found = bench.bench(Buttons, num_envs=2, against=("gymnasium",), seconds=0.1, backends=("serial",))
    assert {side.status for side in found.contenders} == {"ok"}


# --- tune -------------------------------------------------------------------------------------------------------


def tuned(*trials: Trial) -> tune.TuneResult:
    return tune.TuneResult("X-v0", "X-v0", 1.0, cost(), list(trials), {})


def test_fewest_envs_within_two_percent():
    """Of the trials within 2 % of the best rate, the one with the fewest envs is the one to use."""
    found = tuned(
        Trial("serial", 8, 1, 50_000, 0),
        Trial("process", 16, 2, 99_000, 0),
        Trial("process", 64, 2, 100_000, 0),
    )
    assert found.best.num_envs == 16
    assert found.code == 'rookery.make_vec("X-v0", num_envs=16, backend="process", workers=2)'


def test_serial_wins_ties():
    """With as many envs, the serial loop is preferred to workers that bring nothing."""
    found = tuned(Trial("process", 8, 1, 100, 0), Trial("serial", 8, 1, 99, 0))
    assert found.code == 'rookery.make_vec("X-v0", num_envs=8, backend="serial")'


def test_waiting_steps_get_more_workers_than_cores():
    """Workers beyond the cores are tried only where a step waits."""
    assert max(measurements.worker_counts(cost(cpu_share=1.0))) == usable_cores()
    assert max(measurements.worker_counts(cost(cpu_share=0.1))) > usable_cores()


def test_auto_chooses_what_the_table_says(monkeypatch, capsys):
    """The row that `tune` marks is what `make_vec` takes from now on, whatever follows from the cost of a step."""
    rates = {("serial", 8, 1): 4e4, ("serial", 32, 1): 6e4, ("process", 32, 2): 4e4, ("process", 64, 2): 5e4}
    monkeypatch.setattr(tune, "candidates", lambda *_: [EnginePlan(*plan) for plan in rates])
    monkeypatch.setattr(measurements, "contest", lambda source, cost, plans, *_, **__: [(rates[p], 0) for p in plans])
    tune.tune("CartPole-v1").print()
    marked = [line for line in capsys.readouterr().out.splitlines() if "chosen by auto" in line]
    assert [line.split()[:3] for line in marked] == [["serial", "32", "60,000"]]
    with closing(rookery.make_vec("CartPole-v1")) as envs:
        assert (envs.backend, envs.num_envs) == ("serial", 32)


def test_kernel_worlds_are_tried_compiled():
    """Their compiled envs are among what is tried, as `auto` takes no others."""
    plans = tune.candidates(cost(), Choice("serial", 1, 1, ""), 1.0, is_kernel=True)
    assert {plan.backend for plan in plans} == {"serial", "process", "kernel"}


def test_candidates_fit_in_memory():
    """Numbers of envs that would fill the memory are not tried; what is expected to be fastest always is."""
    auto = Choice("process", 2, 1, "")
    plans = tune.candidates(cost(memory=2**40), auto, 1.0)
    assert plans == [("process", 2, 1)]


def test_slow_worlds_are_tried_with_few_envs():
    """A round must fit several times into the time of a trial, or only one env a worker is tried."""
    plans = tune.candidates(cost(step=1.0), Choice("serial", 1, 1, ""), 1.0)
    assert all(num_envs <= workers for _, num_envs, workers in plans)


def test_tune_measures_what_it_tries(monkeypatch):
    """`tune` runs each candidate and reports rates, memory and a call that works."""
    monkeypatch.setattr(tune, "candidates", lambda *_: [EnginePlan("serial", 2, 1), EnginePlan("process", 4, 2)])
    answer = tune.tune("CartPole-v1", seconds=0.2).as_json()
    assert [(t["backend"], t["num_envs"], t["workers"]) for t in answer["tried"]] == [
        ("serial", 2, 1),
        ("process", 4, 2),
    ]
    assert all(t["steps_per_second"] > 0 for t in answer["tried"])
    assert answer["tried"][1]["memory"] > 2**20
    assert answer["use"]["code"].startswith('rookery.make_vec("CartPole-v1", num_envs=')
    json.dumps(answer)


def test_seconds_must_be_positive():
    """A time that cannot be measured is rejected."""
    with pytest.raises(OptionError, match="seconds should be a positive number, got nan"):
        tune.tune("CartPole-v1", seconds=float("nan"))


# --- profile ----------------------------------------------------------------------------------------------------


@pytest.mark.alone
def test_functions_are_found_with_their_shares():
    """The profile names the functions of a step, with what they take in all and by themselves, resets apart."""
    found = profile_steps(resolve(Spin), steps=50)
    by_name = {f.name.rpartition(".")[2]: f for f in found.step_functions}
    assert by_name["simulate"].share > 0.8
    assert by_name["simulate"].own_share < 0.2
    assert by_name["simulate"].calls == 1
    assert not by_name["simulate"].library
    assert "lay_out" not in by_name
    assert "lay_out" in {f.name.rpartition(".")[2] for f in found.reset_functions}


@pytest.mark.alone
def test_reset_share_counts_resets_between_steps():
    """Resets of 2 ms after every 10 steps of 0.2 ms take about half of the time: 0.1 s each, of which what another
    program takes away in the meantime is little."""
    found = profile_steps(resolve(Spin), steps=500)
    assert found.resets == 50
    assert 0.3 < found.reset_share < 0.7


def test_wrappers_are_named():
    """The wrappers around the env are listed, and their own time is in the profile."""
    found = profile_steps(resolve("CartPole-v1"), steps=20)
    assert found.wrappers == ["TimeLimit", "CartPoleEnv"]
    assert "TimeLimit.step" in {f.name for f in found.step_functions}


def profiled(*functions: FunctionTime, step: float = 1e-4, reset: float = 1e-5, resets: int = 1) -> StepProfile:
    return StepProfile(100, resets, step, reset, list(functions), [], ["TimeLimit", "MyEnv"])


TRIALS = [Trial("serial", 8, 1, 1000, 0), Trial("process", 8, 2, 1900, 0)]
STEP = FunctionTime("MyEnv.step", "my_env.py:5", 1, 1.0, 0.2, False)


def test_advice_on_rendering():
    """Rendering inside a step is the first thing to drop."""
    first, _ = advise(profiled(STEP, FunctionTime("MyEnv.render", "my_env.py:9", 1, 0.62, 0.5, False)), cost(), TRIALS)
    assert first == "62 % of a step is spent in render(): do not render while training."


def test_advice_on_resets():
    """Resets that take a large part of the time are named, with how often they come."""
    first, _ = advise(profiled(STEP, reset=6.7e-3, resets=1), cost(), TRIALS)
    assert first.startswith("Resets take 40 % of the time (6.7 ms each, one every 100 steps)")


def test_advice_on_the_hottest_function():
    """Without a usual suspect, the function with the most time of its own is where to start."""
    first, _ = advise(profiled(STEP, FunctionTime("MyEnv.fly", "my_env.py:9", 1, 0.7, 0.7, False)), cost(), TRIALS)
    assert first == "70 % of a step is spent in MyEnv.fly itself (my_env.py:9): start there."


def test_advice_on_waiting():
    """A step that waits is not blamed on its code: more workers are the cure."""
    sleeping = FunctionTime("time.sleep", "", 1, 0.9, 0.9, True)
    (only,) = advise(profiled(STEP, sleeping), cost(cpu_share=0.2), TRIALS)
    assert only.startswith("80 % of a step is waiting: use more workers than cores")


def test_advice_on_tiny_steps():
    """A step of a few microseconds wants many envs for each worker."""
    *_, last = advise(profiled(STEP, step=8e-6), cost(step=8e-6), TRIALS)
    assert last.startswith("A step takes only 8.0 us")
    assert last.endswith("give each worker many envs.")


# --- doctor -----------------------------------------------------------------------------------------------------


def test_extras_come_from_the_package_itself():
    """The extras and what they bring are read from rookery's metadata."""
    assert measurements.extras()["plot"] == ["matplotlib"]
    assert "stable-baselines3" in measurements.extras()["sb3"]


def test_doctor_says_how_to_get_what_is_missing(monkeypatch):
    """An extra that is not installed comes with the command that installs it."""
    monkeypatch.setattr(doctor, "package_version", lambda name: None)
    (finding,) = [f for f in doctor._extras() if f.subject == "extra plot"]
    assert (finding.state, finding.found) == ("note", "missing: matplotlib")
    assert finding.remedy == "pip install 'rookery[plot]'"


def test_a_start_method_that_fails_is_a_finding(monkeypatch):
    """A start method that cannot start a worker is reported with the reason, not raised."""
    assert "start_method" in (doctor._start_problem("teleport") or "")


def test_doctor_says_how_to_get_compiled_loops(monkeypatch):
    """Whether the engine's loops are compiled and, if not, what that takes."""
    monkeypatch.setattr(loops, "COMPILED", True)
    assert doctor._loops() == doctor.MachineCheck("the engine's loops", "ok", "compiled")
    monkeypatch.setattr(loops, "COMPILED", False)
    monkeypatch.setattr(loops, "compiled", lambda: loops)
    assert doctor._loops().remedy == "unset ROOKERY_PLAIN"
    monkeypatch.setattr(loops, "compiled", lambda: None)
    assert "gcc" in doctor._loops().remedy


def test_limits_are_told(monkeypatch):
    """A cgroup's limit on CPU time is named beside the cores."""
    monkeypatch.setattr(doctor, "cpu_quota", lambda: 1.5)
    assert "the cgroup allows 1.5" in doctor._cores().found


def test_busy_machine_is_mentioned():
    """A report says so when other programs were using the cores as it began."""
    assert measurements.busy_line({"busy_cores": 0.01, "cores": 2}) is None
    assert "used 1.2 of 2 cores" in (measurements.busy_line({"busy_cores": 1.2, "cores": 2}) or "")


# --- show -------------------------------------------------------------------------------------------------------


def test_tables_are_not_cut_on_a_narrow_terminal(monkeypatch, capsys):
    """Names and figures stay whole: the terminal wraps what does not fit."""
    monkeypatch.setenv("COLUMNS", "20")
    table = printing.table("", "backend", "workers>", "steps/s>")
    table.add_row("process", "2", "123,456,789")
    printing.print_table(printing.console(), table)
    assert capsys.readouterr().out.splitlines()[1].split() == ["process", "2", "123,456,789"]


def test_one_note_of_the_doctor_is_one(capsys):
    checks = [doctor.MachineCheck("workers by fork", doctor.GOOD, ""), doctor.MachineCheck("gpu", doctor.NOTE, "")]
    doctor.MachineReport(checks).print()
    assert capsys.readouterr().out.rstrip().endswith("Ready. 1 note above.")
