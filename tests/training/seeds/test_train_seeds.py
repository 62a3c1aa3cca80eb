"""Several seeds of one configuration: which runs are trained, how they are stopped, what is summed up."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import pytest

from rookery.config import build_config
from rookery.errors import OptionError
from rookery.monitor.statistics import bootstrap_interval
from rookery.training.commands import start_command
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.seeds import processes
from rookery.training.seeds.processes import (
    FINISHED,
    NEW,
    RESUME,
    SeedRun,
    Shares,
    divide,
    seed_runs,
    with_known_engine,
)
from rookery.training.seeds.train_seeds import SeedScreen, seed_list, train_seeds
from training.storage.stored import stored_run

GIB = 1 << 30

# In place of the command: it records its arguments and does what its seed stands for.
STAND_IN = """
import json, os, signal, sys, time
from pathlib import Path

_, verb, what, *rest = sys.argv[1:]
if verb == "resume":
    config = json.loads((Path(what) / "config.json").read_text())
else:
    config = json.loads(Path(what).read_text())
folder = Path(config["runs_dir"]) / config["name"]
folder.mkdir(parents=True, exist_ok=True)
(folder / "config.json").write_text(json.dumps(config))
(folder / f"{verb}.json").write_text(json.dumps([*rest, os.environ.get("OMP_NUM_THREADS")]))
(folder / "started").write_text(str(time.time()))

def tell(**values):
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"time": 1.0, **values}) + chr(10))

def interrupted(number, frame):
    if config["seed"] in (40, 41):  # whose last rollout is complete
        return
    tell(kind="end", step=10, reason="interrupted")
    sys.exit(128 + number)

signal.signal(signal.SIGINT, interrupted)
tell(kind="start", step=0)
seed = config["seed"]
if verb == "train" and seed in (30, 31, 40, 41):  # a long run
    (folder / "ready").touch()
    time.sleep(30 if seed < 40 else 2)
if seed == 20:
    sys.exit("the env is broken")
if seed == 22:
    print("bad input", file=sys.stderr)
    sys.exit(2)
time.sleep(0.2)
for step in (10, 20):
    line = {"kind": "evaluation", "step": step, "time": 2.0, "eval/return": 100.0 * seed + step}
    tell(**line)
    with open(folder / "evaluations.jsonl", "a") as file:
        file.write(json.dumps(line) + chr(10))
tell(kind="end", step=20, reason="finished")
(folder / "ended").write_text(str(time.time()))
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A small configuration whose runs are stand-ins, and whose plots are quick."""
    monkeypatch.setattr(processes, "start_command", partial(start_command, code=STAND_IN))
    monkeypatch.setattr("rookery.monitor.plots.save_figure", lambda figure, out: out.write_text("a plot"))
    return build_config("CartPole-v1", runs_dir=str(tmp_path / "runs"), steps=1000, num_envs=2)


@pytest.mark.parametrize("text", ["0", "-1", "", ",", "a", "1,b", "1.5", "1,-2", "100000", f"{2**63},1", "1-3"])
def test_what_names_no_seeds_is_refused(text):
    with pytest.raises(OptionError, match="--seeds should be a number of seeds"):
        seed_list(text)


def test_a_seed_twice_is_refused():
    with pytest.raises(OptionError, match="seed 3 is given twice"):
        seed_list("3,1,3")


@pytest.mark.parametrize(
    ("options", "runs", "cores", "memory", "expected"),
    [({"backend": "kernel"}, 5, 2, 8 * GIB, Shares(2, 1)), ({"backend": "serial"}, 3, 16, 64 * GIB, Shares(3, 5)),
     ({"backend": "process"}, 5, 2, 8 * GIB, Shares(1, 2)), ({"backend": "process"}, 5, 16, 64 * GIB, Shares(4, 4)),
     ({"backend": "kernel", "device": "cuda"}, 5, 16, 64 * GIB, Shares(1, 16)),
     ({"backend": "kernel"}, 5, 16, 3 * GIB, Shares(3, 5)), ({"backend": "kernel"}, 5, 16, 100, Shares(1, 16))],
)  # fmt: skip
def test_the_machine_is_divided_by_backend_cores_and_memory(options, runs, cores, memory, expected):
    assert divide(build_config("CartPole-v1", **options), runs, cores, memory) == expected


def test_the_user_may_decide_how_many_run_at_a_time():
    config = build_config("CartPole-v1", backend="process")
    assert divide(config, 5, 2, GIB, jobs=3) == Shares(3, 1) and divide(config, 2, 8, GIB, jobs=9) == Shares(2, 4)
    with pytest.raises(OptionError, match="--jobs"):
        divide(config, 5, 2, GIB, jobs=0)


def test_runs_that_are_there_are_used_again(config, tmp_path):
    """With the same configuration and seed, whoever has started them; one that has not finished is resumed."""
    resolved = resolve_run(config)
    recorded = resolved.config.model_dump(mode="json") | {"device": "cpu", "workers": 7}
    done = stored_run(tmp_path / "runs", "any-name", (1.0,), **recorded | {"seed": 1})
    cut = stored_run(tmp_path / "runs", "cut", (1.0,), **recorded | {"seed": 2})
    cut.metrics.write_text(cut.metrics.read_text().replace('"finished"', '"interrupted"'))
    stored_run(tmp_path / "runs", "CartPole-v1-ppo-s3_vec2", (1.0,), **recorded | {"seed": 3, "steps": 7})
    found = seed_runs(resolved, [1, 2, 3, 4])
    assert [(one.run.name, one.state) for one in found] == [
        ("any-name", FINISHED), ("cut", RESUME), ("CartPole-v1-ppo-s3_vec2-2", NEW), ("CartPole-v1-ppo-s4_vec2", NEW),
    ]  # fmt: skip
    assert done.path == found[0].run.path
    named = seed_runs(resolved.with_config(name="mine"), [1])
    assert [(one.run.name, one.state) for one in named] == [("mine-s1", NEW)]


def test_an_engine_that_was_measured_before_is_kept(tmp_path):
    """Otherwise the number of envs might differ between the seeds. One that the user gives is used."""
    config = build_config("CartPole-v1", runs_dir=str(tmp_path), steps=1000)
    resolved = resolve_run(config.model_copy(update={"num_envs": 5}))
    stored_run(tmp_path, "first", **resolved.config.model_dump(mode="json") | {"device": "cpu"})
    assert with_known_engine(config, resolve_run(config))["num_envs"] == 5
    other = config.model_copy(update={"num_envs": 3})
    assert with_known_engine(other, resolve_run(other)) == {}


def test_every_seed_is_a_run_and_all_are_summed_up(config, tmp_path):
    result = train_seeds(config, [0, 1, 2, 3, 4], jobs=2)
    assert [(row["seed"], row["state"]) for row in result.runs] == [(seed, "finished") for seed in range(5)]
    last = [100.0 * seed + 20 for seed in range(5)]
    low, high = (float(end) for end in bootstrap_interval(last))
    assert result.evaluation == {"iqm": 220.0, "low": low, "high": high, "seeds": 5} and result.exit_code == 0
    assert result.plot == tmp_path / "runs" / "plots" / "CartPole-v1-ppo_vec2-seeds.png"
    assert result.plot.read_text() == "a plot" and json.dumps(result.as_json())
    folders = [tmp_path / "runs" / f"CartPole-v1-ppo-s{seed}_vec2" for seed in range(5)]
    started, ended = ([float((folder / name).read_text()) for folder in folders] for name in ("started", "ended"))
    at_once = max(sum(a <= moment < b for a, b in zip(started, ended, strict=True)) for moment in started)
    assert at_once <= 2
    recorded = json.loads((folders[0] / "config.json").read_text())
    assert recorded["ppo"]["threads"] == 1 and json.loads((folders[0] / "train.json").read_text()) == ["1"]


def test_one_after_another_each_has_the_whole_machine(config, tmp_path):
    train_seeds(config, [0], jobs=1)
    recorded = json.loads((tmp_path / "runs" / "CartPole-v1-ppo-s0_vec2" / "config.json").read_text())
    assert recorded["ppo"]["threads"] is None


def test_a_run_that_fails_does_not_end_the_others(config):
    result = train_seeds(config, [20, 1], jobs=1)
    assert [row["state"] for row in result.runs] == ["failed", "finished"]
    assert "the env is broken" in result.errors[20] and result.exit_code == 1
    assert result.evaluation["seeds"] == 1


def test_bad_input_is_the_same_for_all(config):
    """So that the others do not start."""
    result = train_seeds(config, [22, 1], jobs=1)
    assert [row["state"] for row in result.runs] == ["failed", "waiting"]
    assert result.exit_code == 2 and result.errors == {22: "bad input"} and result.evaluation is None


@contextmanager
def signalled_once_running(tmp_path, seeds):
    """A signal comes when the runs of these seeds are running; gives their folders."""
    runs = [tmp_path / "runs" / f"CartPole-v1-ppo-s{seed}_vec2" for seed in seeds]
    code = (
        "import os, signal, sys, time\n"
        "end = time.monotonic() + 60\n"
        "while not all(map(os.path.exists, sys.argv[2:])) and time.monotonic() < end: time.sleep(0.02)\n"
        "os.kill(int(sys.argv[1]), signal.SIGINT)\n"
    )
    ready = [str(run / "ready") for run in runs]
    with subprocess.Popen([sys.executable, "-S", "-c", code, str(os.getpid()), *ready]):
        yield runs


def test_runs_that_end_in_spite_of_a_signal_count(config, tmp_path):
    """Their last rollout was complete: if that is so of all, the command has done what it was requested."""
    with signalled_once_running(tmp_path, (40, 41)):
        result = train_seeds(config, [40, 41], jobs=2)
    assert [row["state"] for row in result.runs] == ["finished"] * 2
    assert result.exit_code == 0 and result.evaluation is not None and result.evaluation["seeds"] == 2


def test_a_signal_stops_all_runs_and_the_same_call_continues(config, tmp_path, capsys):
    """Each is asked once; those that wait do not start; the call afterwards resumes and starts what is left."""
    with signalled_once_running(tmp_path, (30, 31)) as runs:
        before, started = signal.getsignal(signal.SIGINT), time.monotonic()
        result = train_seeds(config, [30, 31, 1], jobs=2)
    assert time.monotonic() - started < 40 and signal.getsignal(signal.SIGINT) is before
    assert [row["state"] for row in result.runs] == ["interrupted", "interrupted", "waiting"]
    assert result.exit_code == 130 and result.plot is None
    assert "seed 30 (CartPole-v1-ppo-s30_vec2): interrupted" in capsys.readouterr().out
    again = train_seeds(config, [30, 31, 1], jobs=2)
    assert [row["state"] for row in again.runs] == ["finished"] * 3
    assert all((run / "resume.json").is_file() for run in runs)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_command_trains_real_runs(tmp_path):
    """Two seeds side by side, and again with a third: the first two are not repeated."""
    words = [sys.executable, "-m", "rookery", "train", "CartPole-v1", "--steps", "4096", "--eval-episodes", "2"]
    for seeds, said in (("2", "2 to start"), ("3", "2 finished already, 1 to start")):
        done = subprocess.run([*words, "--seeds", seeds], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert said in done.stderr and "interquartile mean" in done.stdout
    assert len(list((tmp_path / "runs").glob("*-s*"))) == 3
    assert next((tmp_path / "runs" / "plots").iterdir()).read_bytes().startswith(b"\x89PNG")


def test_nothing_is_printed_if_that_is_wanted(config, capsys, caplog):
    quiet = config.model_copy(update={"monitor": config.monitor.model_copy(update={"verbose": False})})
    assert train_seeds(quiet, [1]).exit_code == 0
    printed = capsys.readouterr()
    assert printed.out == printed.err == caplog.text == ""


def test_the_weights_to_begin_with_are_found_once(config, monkeypatch, tmp_path):
    """ "latest" would be another run for the second seed."""
    place = str(tmp_path / "checkpoint")
    monkeypatch.setattr("rookery.training.run.initial_weights.read_initial_weights", lambda *_: place)
    monkeypatch.setattr(
        "rookery.training.run.initial_weights.with_nets_of",
        lambda weights, config: config.model_copy(update={"init_from": weights}),
    )
    train_seeds(config.model_copy(update={"init_from": "latest"}), [1, 2])
    files = (tmp_path / "runs").glob("*/config.json")
    assert [json.loads(file.read_text())["init_from"] for file in files] == [place, place]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("panel", "drawn"), [(True, True), (False, False)])
def test_a_terminal_shows_a_table_unless_lines_are_wanted(panel, drawn, tmp_path):
    run = stored_run(tmp_path, "some-run", (1.0, 250.0))
    one = processes.SeedProcess(SeedRun(7, run, NEW), status=0)
    with SeedScreen(4000, panel, stream=(stream := Terminal())) as screen:
        screen.update([one])
        screen.update([one], last=True)
    shown = stream.getvalue()
    assert "some-run" in shown and "50 %" in shown and "250" in shown and "finished" in shown
    assert ("best eval" in shown) == drawn and ("seed 7 (some-run): finished, 2,000 steps" in shown) == (not drawn)
