"""What `make_vec` takes, refuses, chooses and says."""

from __future__ import annotations

import inspect
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rookery
from conformance.worlds import Counter, Sampler
from rookery.config.schema import RunConfig
from rookery.engine import make_vec
from rookery.engine.cost_memory import Cost, remember
from rookery.engine.env_factory import resolve
from rookery.engine.workers.forkserver import SERVERS
from rookery.errors import MemoryShortage, OptionError, SpaceError, WorldError


def run_script(tmp_path, code, *args, timeout=60):
    """Run a user's script as they would, without a main guard."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, str(script), *args], capture_output=True, text=True, timeout=timeout, check=False
    )


def one_step(envs):
    envs.reset(seed=1)
    result = envs.step(np.zeros(envs.num_envs, np.int64))
    envs.close()
    return result


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["spawn", "forkserver", "fork"])
def test_lambdas_and_closures_reach_workers(start_method):
    """What a worker builds may be a lambda over local values, under every start method."""
    length = 3
    envs = rookery.make_vec(lambda: Counter(length), 2, backend="process", workers=2, start_method=start_method)
    assert envs.get_attr("length") == (3, 3)
    assert envs.start_method == start_method
    envs.close()


@pytest.mark.slow
def test_a_script_needs_no_main_guard_and_may_define_its_env(tmp_path):
    """Ten lines in a file, run once: the worker does not run them again."""
    done = run_script(
        tmp_path,
        """
        import gymnasium as gym, numpy as np, rookery
        print("once")
        class Mine(gym.Env):
            observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
            action_space = gym.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return np.zeros(1, np.float32), {}
            def step(self, action):
                if action == 1:
                    raise MineError("boom")
                return np.ones(1, np.float32), 2.0, False, False, {}
        class MineError(Exception):
            pass
        for method in ("spawn", "forkserver", "fork"):
            envs = rookery.make_vec(Mine, num_envs=3, backend="process", workers=2, start_method=method)
            envs.reset(seed=1)
            print(envs.step([0, 0, 0])[1].tolist())
            try:
                envs.step([0, 1, 0])
            except MineError as error:
                print("caught", error, error.env_index)
            envs.close()
        """,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["once"] + ["[2.0, 2.0, 2.0]", "caught boom 1"] * 3


def test_a_world_in_a_file(tmp_path):
    """`file.py:MyEnv` works for a file that is nobody's module, with imports from beside it."""
    (tmp_path / "beside.py").write_text("LENGTH = 4\n")
    (tmp_path / "mine.py").write_text(
        "from conformance.worlds import Counter\nfrom beside import LENGTH\n\n"
        "class Mine(Counter):\n    def __init__(self, extra=0):\n        super().__init__(LENGTH + extra)\n"
    )
    name = f"{tmp_path}/mine.py:Mine"
    envs = rookery.make_vec(name, 2, backend="process", workers=1, env_kwargs={"extra": 2})
    assert envs.get_attr("length") == (6, 6)
    envs.close()
    with pytest.raises(WorldError, match=r"no class or function 'Yours'; envs in it: Counter, Mine"):
        rookery.make_vec(f"{tmp_path}/mine.py:Yours", 2)
    with pytest.raises(WorldError, match="there is no file"):
        rookery.make_vec(f"{tmp_path}/other.py:Mine", 2)


FILE_WORLD = """
from conformance.worlds import Counter

class Note:
    pass

class Trouble(Exception):
    pass

class Mine(Counter):
    def step(self, action):
        if action:
            raise Trouble("enough")
        return *super().step(action)[:4], {"note": Note()}
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_classes_of_a_file_are_the_same_everywhere(tmp_path, method):
    """What an env from a file returns, raises and saves may be of classes in that file."""
    (tmp_path / "mine.py").write_text(FILE_WORLD)
    name = f"{tmp_path}/mine.py:Mine"
    envs = rookery.make_vec(name, 2, backend="process", workers=2, start_method=method)
    here = rookery.make_vec(name, 2, backend="serial")
    envs.reset(seed=1), here.reset(seed=1)
    note = here.step([0, 0])[4]["note"][1]
    assert type(envs.step([0, 0])[4]["note"][1]) is type(note)
    with pytest.raises(sys.modules[type(note).__module__].Trouble, match="enough"):
        envs.step([0, 1])
    here.load_state_dict(envs.state_dict())
    envs.close()


def test_sys_path_may_hold_anything(tmp_path, monkeypatch):
    """Such as a Path, which Python itself passes over."""
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    envs = rookery.make_vec(Counter, 1, backend="process", workers=1)
    assert envs.reset(seed=1)[0].shape == envs.observation_space.shape
    envs.close()


def test_numpy_integers_are_integers():
    """Numbers that were computed are as good as those that were typed."""
    envs = rookery.make_vec(Counter, np.int64(4), "serial", np.int32(2), batch_size=np.int64(2))
    envs.resize(np.int64(3))
    assert envs.num_envs == 3
    assert type(envs.num_envs) is int


def test_a_list_of_worlds():
    """Each env may be built by a callable of its own."""
    envs = rookery.make_vec([lambda: Counter(2), lambda: Counter(5)], backend="serial")
    assert envs.num_envs == 2
    assert envs.get_attr("length") == (2, 5)
    with pytest.raises(OptionError, match="2 worlds"):
        envs.resize(3)


@pytest.mark.parametrize(
    ("world", "options", "message"),
    [
        ("CartPol-v1", {}, "'CartPol-v1' is not a registered Gymnasium id; did you mean CartPole-v1"),
        ("nowhere:Thing-v0", {}, "'nowhere:Thing-v0' is not a registered Gymnasium id"),
        (42, {}, "42 is not a world: give a Gymnasium id"),
        ([], {}, "not a world"),
        ([Counter, 3], {}, "item 1 of the list of worlds should be a class or function that makes an env, got 3"),
        ([Counter, Counter], {"num_envs": 3}, "num_envs=3, but the list contains 2"),
        (Counter(), {}, "got an env instance, conformance.worlds.Counter: many copies are needed"),
        (Counter, {"num_envs": 0}, "num_envs should be a positive integer, got 0"),
        (Counter, {"num_envs": -3}, "num_envs should be a positive integer, got -3"),
        (Counter, {"num_envs": 2.0}, "num_envs should be a positive integer, got 2.0"),
        (Counter, {"num_envs": 2, "workers": 3}, "workers=3 is more than num_envs=2"),
        (Counter, {"num_envs": 2, "workers": 0}, "workers should be a positive integer"),
        (
            Counter,
            {"num_envs": 2, "backend": "proces"},
            "backend should be one of 'auto', 'serial', 'thread', 'process'",
        ),
        (Counter, {"num_envs": 2, "start_method": "forc"}, "start_method should be one of"),
        (Counter, {"num_envs": 2, "autoreset_mode": "later"}, "autoreset_mode should be one of 'next_step'"),
        (Counter, {"num_envs": 2, "on_failure": "ignore"}, "on_failure should be one of 'raise', 'restart'"),
        (Counter, {"num_envs": 2, "bad_values": "keep"}, "bad_values should be one of"),
        (Counter, {"num_envs": 2, "batch_size": 3}, "batch_size=3 is more than num_envs=2"),
        (Counter, {"num_envs": 2, "groups": 3}, "groups=3 is more than num_envs=2"),
        (Counter, {"num_envs": 4, "groups": 2, "batch_size": 2}, "batch_size or groups, not both"),
        (Counter, {"num_envs": 2, "step_timeout": -1}, "step_timeout should be a positive number"),
        (Counter, {"num_envs": 2, "step_timeout": 1.0, "backend": "serial"}, "step_timeout needs backend='process'"),
        (Counter, {"num_envs": 2, "max_restarts": -1}, "max_restarts should be a non-negative integer"),
        (Counter, {"num_envs": 2, "n_envs": 3}, "two names of one option"),
        (Counter, {"num_envs": 2, "env_kwargs": [3]}, r"env_kwargs should be a dict of keyword arguments, got \[3\]"),
    ],
)
def test_bad_input_is_refused_before_any_process_starts(world, options, message, monkeypatch):
    """One clear error that names what was given and what is valid."""
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was started"))
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a process was started"))
    with pytest.raises((OptionError, WorldError), match=message):
        rookery.make_vec(world, **options)


class NoSpaces(Counter):
    """Forgot its observation space."""

    observation_space = None


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_what_only_an_env_can_tell_is_refused_by_the_first_worker(backend, monkeypatch):
    """Not an env, no spaces, spaces that differ between envs: found before a second worker starts."""
    started = []
    start = make_vec.import_module("rookery.engine.workers.launcher").WorkerLauncher.start
    monkeypatch.setattr(
        "rookery.engine.workers.launcher.WorkerLauncher.start", lambda self: started.append(1) or start(self)
    )
    options = {"num_envs": 4, "backend": backend, "workers": 4 if backend == "process" else 1}
    with pytest.raises(WorldError, match=r"should build a gymnasium\.Env, but it returned builtins\.dict"):
        rookery.make_vec(dict, **options)
    with pytest.raises(SpaceError, match=r"observation_space should be a gymnasium Space, got None.*: set it in"):
        rookery.make_vec(NoSpaces, **options)
    assert len(started) <= 2
    makers = [lambda: Sampler("box"), lambda: Sampler("discrete")]
    with pytest.raises(SpaceError, match="need the same observation space"):
        rookery.make_vec(makers, backend=backend, workers=1)


def test_auto_measures_and_says_in_one_line_what_it_chose(caplog):
    """A slow env goes to processes; the line says why."""
    caplog.set_level(logging.INFO, logger="rookery")
    slow = rookery.make_vec(lambda: SlowEnv(0.002), num_envs=4)
    assert (slow.backend, len(caplog.messages)) == ("process", 1)
    assert "backend='process', num_envs=4" in caplog.text
    assert "a step takes" in caplog.text
    slow.close()


def test_auto_steps_a_trivial_env_in_the_loop(caplog):
    """Its cost is given here: beside other programs a step of a microsecond may seem to take a hundred."""
    caplog.set_level(logging.INFO, logger="rookery")
    remember(resolve(Counter), Cost(1e-6, 1.0, 1e-6, 1e-4, 4096, 2**25))
    quick = rookery.make_vec(Counter, num_envs=2)
    assert (quick.backend, len(caplog.messages)) == ("serial", 1)
    assert "too short for several workers" in caplog.text
    quick.close()


class SlowEnv(Counter):
    """Burns time in every step."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def step(self, action):
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return super().step(action)


def test_everything_left_open_is_found_out():
    """With neither num_envs nor workers given, both are chosen, and the engine works."""
    envs = rookery.make_vec(lambda: SlowEnv(0.0005))
    assert envs.num_envs >= 2
    assert one_step(envs)[1].shape == (envs.num_envs,)
    assert rookery.get_recommended_n_envs() >= 1


@pytest.mark.slow
def test_falls_back_to_serial_when_processes_cannot_start(monkeypatch, caplog):
    """One clear line, and the work continues in one process."""
    caplog.set_level(logging.INFO, logger="rookery")

    def refuse(*args, **kwargs):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    SERVERS.close()  # an earlier test's
    monkeypatch.setattr(subprocess, "Popen", refuse)
    for options in ({}, {"backend": "process", "workers": 2}):
        envs = rookery.make_vec("CartPole-v1", num_envs=2 if options else 4, **options)
        assert envs.backend == "serial"
        assert "worker processes cannot be started here" in caplog.text
        one_step(envs)
        caplog.clear()


class NoDevice(Counter):
    """Cannot open what it needs."""

    def __init__(self):
        raise OSError(19, "No such device")


@pytest.mark.parametrize("options", [{}, {"backend": "process", "workers": 2}], ids=str)
def test_an_envs_own_system_error_is_no_reason_to_fall_back(options, caplog):
    """What an env's constructor raises is raised, and nobody says that processes cannot be started."""
    caplog.set_level(logging.INFO, logger="rookery")
    with pytest.raises(OSError, match="No such device") as caught:
        rookery.make_vec(NoDevice, num_envs=2, **options)
    assert caught.value.env_index == 0
    assert caplog.text == ""


@pytest.mark.alone
def test_after_ctrl_c_the_step_under_way_can_still_be_received():
    """Workers do not see the interrupt; what they were doing arrives with recv(), and stepping continues from there."""
    envs = rookery.make_vec(lambda: SlowEnv(0.4), 2, backend="process", workers=2)
    envs.reset(seed=1)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        envs.step([0, 0])
    with pytest.raises(rookery.errors.UsageError, match="recv"):
        envs.step([0, 0])
    assert envs.recv()[0][:, 0].tolist() == [1.0, 1.0]
    assert envs.step([0, 0])[0][:, 0].tolist() == [2.0, 2.0]
    envs.close()


@pytest.mark.parametrize("options", [{"batch_size": 300}, {"groups": 300}, {"workers": 3}])
def test_a_number_of_envs_that_serves_the_other_options(options):
    """Where it is left open there are enough envs for what is not."""
    envs = rookery.make_vec(Counter, backend="serial", **options)
    assert envs.num_envs >= max(options.values())
    envs.close()


class Picky(Counter):
    """Refuses actions that its rules do not allow, as board games do."""

    action_space = gym.spaces.Discrete(1000)

    def step(self, action):
        if action != 0:
            raise ValueError(f"illegal move {action}")
        return super().step(action)


def test_an_env_that_refuses_random_actions_is_not_measured(caplog):
    """It is run all the same, and the line says why so."""
    caplog.set_level(logging.INFO, logger="rookery")
    envs = rookery.make_vec(Picky, 2)
    envs.reset(seed=1)
    assert envs.step([0, 0])[0][:, 0].tolist() == [1.0, 1.0]
    envs.close()
    assert "not measured, as a step with a random action raised ValueError: illegal move" in caplog.text


class Sleeper(Counter):
    """Sleeps for a minute in every step."""

    def step(self, action):
        time.sleep(60)
        return super().step(action)


def test_measuring_an_env_that_hangs_ends(monkeypatch):
    """With a step_timeout; the engine then finds the hang as in any other step."""
    monkeypatch.setattr("rookery.engine.autotune.START_SECONDS", 2.0)
    envs = rookery.make_vec(Sleeper, 2, step_timeout=0.1, close_timeout=0.5)
    envs.reset(seed=1)
    with pytest.raises(rookery.errors.StepTimeout):
        envs.step([0, 0])
    envs.close()


@pytest.mark.slow
def test_falls_back_to_serial_where_no_process_can_be_started(monkeypatch, caplog):
    """One gets the serial loop and one line that says why."""

    def refuse(*_, **__):
        raise OSError("this system starts no processes")

    caplog.set_level(logging.INFO, logger="rookery")
    SERVERS.close()
    monkeypatch.setattr("subprocess.Popen", refuse)
    envs = rookery.make_vec("CartPole-v1", num_envs=4)
    assert envs.backend == "serial"
    assert "this system starts no processes" in caplog.text
    one_step(envs)


def test_import_is_light():
    """`import rookery` loads nothing heavier than Gymnasium, whose list of worlds it joins."""
    code = (
        "import sys, rookery;"
        "print([m for m in ('torch', 'numba', 'llvmlite', 'ray', 'optuna', 'pygame') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names():
    """Each can be had; docs/api.md lists them."""
    assert all(getattr(rookery, name) is not None for name in rookery.__all__)
    with pytest.raises(AttributeError, match="rookery has no 'nothing'"):
        _ = rookery.nothing


def test_an_engine_that_is_dropped_takes_its_workers_along():
    """No close(), no reference: no process left."""
    import gc

    import psutil

    envs = rookery.make_vec("CartPole-v1", 2, backend="process", workers=2)
    pids = [row["pid"] for row in envs.stats()]
    del envs
    gc.collect()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_gymnasium_registry_is_shared_with_workers():
    """An id registered by the caller's own code reaches workers when given as a spec."""
    gym.register("Counted-v0", entry_point="conformance.worlds:Counter")
    try:
        envs = rookery.make_vec("Counted-v0", 2, backend="process", workers=2)
        assert one_step(envs)[0][:, 0].tolist() == [1.0, 1.0]
    finally:
        del gym.registry["Counted-v0"]


@pytest.mark.parametrize(("world", "backend"), [("CartPole-v1", "serial"), ("rookery/CartPole-v1", "kernel")])
def test_more_envs_than_memory_holds_are_refused_at_once(world, backend):
    """Before so much as a list of them is made."""
    with pytest.raises(MemoryShortage, match=r"1000000000000 envs need .* is free"):
        rookery.make_vec(world, 10**12, backend=backend)


def test_the_defaults_beside_those_of_train_are_documented():
    """The same options in `make_vec` and in a run; docs/engine.md says how their defaults differ."""
    page = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()
    mine = inspect.signature(rookery.make_vec).parameters
    for name in ("on_failure", "max_restarts", "bad_values"):
        values = [mine[name].default, RunConfig.model_fields[name].default]
        shown = [f'`"{value}"`' if isinstance(value, str) else str(value) for value in values]
        assert f"| `{name}` | {shown[0]} | {shown[1]} |" in page
