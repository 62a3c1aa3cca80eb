"""The commands about runs: what they understand, what they hand on, and how they exit."""

from __future__ import annotations

import json
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.config import check
from rookery.training.evaluation.results import EvaluationResult
from rookery.training.storage.run_lock import Lock
from rookery.training.storage.runs_table import table

PLAYED = EvaluationResult(
    "done", 600, "CartPole-v1", np.array([462.5, 481.25, 500.0]), np.array([462, 481, 500]), (460.0, 500.0), {}, 0, 1.5
)
COMMANDS = ("train", "resume", "eval", "watch", "runs", "export", "league", "convert")


class Calls(list):
    """What the functions behind the commands were called with."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def put(self, monkeypatch, module: str, function: str, answer) -> None:
        def called(*args, **kwargs):
            self.append((args, kwargs))
            print("what a run says")
            return answer

        stand_in = self.modules.setdefault(module, ModuleType(module))
        setattr(stand_in, function, called)
        monkeypatch.setitem(sys.modules, module, stand_in)


@pytest.fixture
def calls(monkeypatch) -> Calls:
    """The functions that train, evaluate and so on are only recorded."""
    made = Calls()
    result = SimpleNamespace(exit_code=0, as_json=lambda: {"run_name": "x"})
    made.put(monkeypatch, "rookery.training.run.train", "train", result)
    sys.modules["rookery.training.run.train"].resume = sys.modules["rookery.training.run.train"].train
    made.put(
        monkeypatch,
        "rookery.training.evaluation.evaluate",
        "evaluate",
        PLAYED,
    )
    made.modules["rookery.training.evaluation.evaluate"].counting = lambda *_: nullcontext(lambda *_: None)
    made.put(monkeypatch, "rookery.training.show.watch", "watch", Path("x.mp4"))
    made.put(monkeypatch, "rookery.training.export.export", "export", Path("x.onnx"))
    return made


def make_run(base: Path, name: str, metrics: list[dict], created: float = 1.0, **files: str) -> Path:
    run = base / name
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"created": created}))
    (run / "config.json").write_text(json.dumps({"world": "CartPole-v1", "learner": "auto"}))
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    for file, text in files.items():
        (run / file.replace("_", ".")).write_text(text)
    return run


@pytest.fixture
def runs(tmp_path) -> Path:
    start = {"kind": "start", "step": 0, "time": 100.0, "world": "CartPole-v1", "learner": "ppo"}
    progress = {"kind": "progress", "step": 500, "time": 101.0, "episodes": 7, "steps_per_second": 12345.6}
    end = {"kind": "end", "step": 600, "time": 102.0, "episodes": 9, "reason": "finished", "steps_per_second": 600.0}
    scores = "".join(json.dumps({"kind": "evaluation", "eval/return": score}) + "\n" for score in (100.0, 480.0, 450.0))
    base = tmp_path / "runs"
    make_run(base, "done", [start, progress, end], 1.0, evaluations_jsonl=scores)
    make_run(base, "killed", [start, progress], 2.0)
    return base


# --- train --------------------------------------------------------------------------------------------------------


def given(calls: Calls, *words: str) -> dict:
    assert main(["train", *words]) == 0
    (args, kwargs) = calls.pop()
    assert not kwargs
    return args[0].model_dump(exclude_unset=True)


def test_a_world_alone(calls):
    """Nothing else is given: recipes and defaults decide the rest."""
    assert given(calls, "CartPole-v1") == {"world": "CartPole-v1"}


def test_every_flag_has_its_key(calls):
    """By today's names."""
    words = (
        "CartPole-v1 --steps 1e5 --num-episodes 9 --seed 3 --num-envs 8 --backend process --workers 2 "
        "--start-method fork --learner ppo --learning-rate 1e-3 --device cpu --eval-every 50 --eval-episodes 4 --video "
        "--name x --runs-dir out --checkpoint-dir kept --no-panel --set ppo.clip=0.1 --set world_options.a=b"
    )
    found = given(calls, *words.split())
    assert all(found.pop(learner)["learning_rate"] == 1e-3 for learner in ("sac", "dqn", "td3", "pqn", "xqc"))
    assert found == {
        "world": "CartPole-v1", "steps": 100_000, "episodes": 9, "seed": 3, "num_envs": 8, "backend": "process",
        "workers": 2, "start_method": "fork", "learner": "ppo", "ppo": {"learning_rate": 1e-3, "clip": 0.1},
        "device": "cpu", "evaluation": {"every": 50, "episodes": 4}, "name": "x", "runs_dir": "out",
        "checkpoints": {"dir": "kept"}, "monitor": {"video": True, "panel": False}, "world_options": {"a": "b"},
    }  # fmt: skip


def test_every_flag_by_its_older_name(calls):
    """What people typed before still works."""
    words = "hockey --n-envs adaptive --parallel-start-method spawn --gpu 1 --eval-freq-steps 5 --eval-num-games 6"
    assert given(calls, *words.split()) == {
        "world": "hockey", "num_envs": "adaptive", "start_method": "spawn", "device": "cuda:1",
        "evaluation": {"every": 5, "episodes": 6},
    }  # fmt: skip


def test_more_flags_by_the_names_of_other_trainers(calls):
    words = (
        "a.py:A --total-timesteps 500 --batch-size 32 --run-name x --base-output-dir out --checkpoint-path old "
        "--parallel-start-method default --device 1 --learner ppo --quiet"
    )
    found = given(calls, *words.replace("a.py:A", "CartPole-v1").split())
    assert found == {
        "world": "CartPole-v1", "steps": 500, "ppo": {"batch_size": 32}, "name": "x", "runs_dir": "out",
        "init_from": "old", "start_method": None, "device": "cuda:1", "learner": "ppo", "monitor": {"verbose": False},
    }  # fmt: skip


def test_without_a_world_it_lists_what_could_be_trained(tmp_path, monkeypatch, capsys):
    """With one command to begin with: an env of the user's, if there is one. Nothing is imported for it."""
    monkeypatch.chdir(tmp_path)
    assert main(["train"]) == 2
    shown = capsys.readouterr().out
    assert "hockey" in shown and "CartPole-v1" in shown and shown.endswith("Try: rookery train CartPole-v1\n")
    (tmp_path / "run.toml").write_text('world = "CartPole-v1"')
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"')
    assert main(["train", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["configs"] == ["run.toml"] and found["suggestion"] == "rookery train run.toml"
    assert "CartPole-v1" in found["ids"] and "CartPole-v0" not in found["ids"] and found["worlds"]
    (tmp_path / "mine.py").write_text("raise SystemExit\nclass Helper: pass\nclass Mine(gym.Env): pass\n")
    assert main(["train"]) == 2
    assert capsys.readouterr().out.endswith("Try: rookery train mine.py:Mine\n")


def test_flags_beat_set_beats_file(calls, tmp_path):
    """From the general to the particular."""
    file = tmp_path / "a.toml"
    file.write_text('world = "CartPole-v1"\nsteps = 1\nseed = 1\nnum_envs = 1')
    found = given(calls, str(file), "--set", "seed=2", "--set", "num_envs=2", "--num-envs", "3")
    assert found == {"world": "CartPole-v1", "steps": 1, "seed": 2, "num_envs": 3}


def test_two_names_may_agree_and_one_may_be_given_again(calls):
    """A flag that is given twice counts as given last, so that one can be put behind a command that has it."""
    assert given(calls, "CartPole-v1", "--n-envs", "8", "--num-envs", "8")["num_envs"] == 8
    assert given(calls, "CartPole-v1", "--num-envs", "4", "--num-envs", "8")["num_envs"] == 8


def test_all_misspelt_flags_are_told_at_once(calls, capsys):
    """As all misspelt keys of a file are."""
    assert main(["train", "CartPole-v1", "--stpes", "9", "--sede", "1"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("rookery: 2 problems\n")
    assert "--stpes; did you mean --steps?" in err and "--sede; did you mean --seed?" in err


@pytest.mark.parametrize("code", [0, 130, 143])
def test_the_exit_status_is_the_runs(calls, monkeypatch, code):
    """130 and 143 for a run that was interrupted, so that scripts can tell."""
    calls.put(monkeypatch, "rookery.training.run.train", "train", SimpleNamespace(exit_code=code))
    assert main(["train", "CartPole-v1"]) == code


def test_json_is_all_of_standard_output(calls, capsys):
    """What the run says in the meantime goes to standard error."""
    assert main(["train", "CartPole-v1", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"run_name": "x"}
    assert "what a run says" in captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPool"], "did you mean CartPole-v1?"),
        (["."], "'.' is a folder: name a config file, or a class in a file"),
        (["nowhere.py"], "rookery: 'nowhere.py': there is no file 'nowhere.py'"),
        (["CartPole-v1", "--device", "cpu", "--gpu", "0"], "`gpu` = 0 and `device` = 'cpu' are two names"),
        (["CartPole-v1", "--steps", "x"], "`steps` should be an integer > 0, got 'x'"),
        (["CartPole-v1", "--name", "a/b"], "`name` should be a folder name"),
        (["CartPole-v1", "--learner", "a2c"], '`learner` should be "auto", "ppo", "sac", "dqn", "td3", "pqn" or "xqc"'),
        (["CartPole-v1", "--num-env", "8"], "unknown flag --num-env; did you mean --num-envs?"),
        (["CartPole-v1", "--stpes", "100"], "unknown flag --stpes; did you mean --steps?"),
        (["CartPole-v1", "--stpes=100"], "unknown flag --stpes; did you mean --steps?"),
        (["CartPole-v1", "--eval-ev", "9"], "unknown flag --eval-ev; did you mean --eval-every?"),
        (["CartPole-v1", "--quux"], "unknown flag --quux; `rookery train --help` lists all flags"),
        (
            ["CartPole-v1", "100"],
            "unexpected '100'; rookery train takes one WORLD_OR_CONFIG",
        ),
        (
            ["CartPole-v1", "--gpu", "x"],
            "argument --gpu: invalid int value: 'x'; `rookery train --help`",
        ),
        (["CartPole-v1", "--set", "opponents.who=3"], "`opponents[0].who` should be a non-empty string, got 3"),
        (
            ["CartPole-v1", "--n-envs", "4", "--num-envs", "8"],
            "`--n-envs` = 4 and `--num-envs` = 8 are two names of one option; give only one of them",
        ),
        (
            ["CartPole-v1", "--eval-num-games", "4", "--seed", "1", "--eval-episodes", "8"],
            "`--eval-num-games` = 4 and `--eval-episodes` = 8 are two names of one option",
        ),
    ],
)
def test_bad_input_is_one_line(calls, capsys, words, message):
    """Status 2, and nothing is trained."""
    assert main(["train", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("rookery: ") and message in err and err.count("\n") == 1
    assert not calls


def test_the_printed_config_is_one(capsys):
    """`--help-config` prints a file that could be used as it stands."""
    assert main(["train", "--help-config"]) == 0
    text = capsys.readouterr().out
    check(tomllib.loads(text))
    assert "# Number of steps to train for" in text
    assert "[ppo]" in text and "# target_kl =" in text


# --- runs that are there ------------------------------------------------------------------------------------------


def test_resume(calls, runs):
    """With a new total of steps, if one is requested."""
    assert main(["resume", "killed", "--runs-dir", str(runs)]) == 0
    assert main(["resume", "latest", "--runs-dir", str(runs), "--steps", "2e6"]) == 0
    expected = (str(runs / "killed"), str(runs))
    assert calls == [(expected, {}), (expected, {"steps": 2_000_000})]


def test_resume_with_changes(calls, runs):
    """Each --set is handed on; a flag wins over it, as in `train`; and what stays the same may be said too."""
    words = ["resume", "killed", "--runs-dir", str(runs), "--set", "steps=1e6", "--set", "evaluation.every=500"]
    place = (str(runs / "killed"), str(runs))
    assert main([*words, "--set", "evaluation.episodes=3", "--set", "runs_dir=runs"]) == 0
    assert calls.pop() == (place, {"steps": 1_000_000, "evaluation": {"every": 500, "episodes": 3}})
    assert main([*words, "--steps", "2e6"]) == 0
    assert calls.pop() == (place, {"steps": 2_000_000, "evaluation": {"every": 500}})


def test_eval(calls, runs, capsys):
    """The figures as lines, or as JSON."""
    words = ["eval", "done", "--runs-dir", str(runs), "--episodes", "3", "--seed", "5", "--stochastic", "--best"]
    assert main([*words, "--world", "CartPole-v1"]) == 0
    args, kwargs = calls.pop()
    assert callable(kwargs.pop("progress"))
    assert (args, kwargs) == (
        (str(runs / "done"), str(runs)),
        {"episodes": 3, "seed": 5, "best": True, "deterministic": False, "world": "CartPole-v1"},
    )
    keys = ["--set", "evaluation.episodes=9", "--set", "evaluation.deterministic=true", "--set", "world_options.a=1"]
    assert main([*words, *keys]) == 0
    assert calls.pop()[1].items() >= {"episodes": 3, "deterministic": False, "world_options": {"a": 1}}.items()
    assert "481.2" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == PLAYED.as_json()


def test_watch_and_export(calls, runs, capsys):
    """Both say where the file is."""
    place = (str(runs / "done"), str(runs))
    assert main(["watch", "done", "--runs-dir", str(runs), "--out", "a.gif", "--fps", "20"]) == 0
    expected = {"episodes": None, "out": "a.gif", "live": False, "fps": 20, "best": None, "seed": None}
    assert calls.pop() == (place, {**expected, "opponent": None, "grid": False})
    assert capsys.readouterr().out.endswith("x.mp4\n")
    assert main(["export", "done", "--runs-dir", str(runs), "--onnx"]) == 0
    expected = {"format": "onnx", "runs_dir": str(runs), "best": True, "overwrite": False, "trust": False}
    assert calls.pop() == ((place[0], None), expected)
    assert main(["export", "done", "--runs-dir", str(runs), "--onnx", "a.onnx", "--best", "--json"]) == 0
    assert calls.pop() == ((place[0], "a.onnx"), expected)
    assert main(["export", "done", "--runs-dir", str(runs), "--standalone", "--last"]) == 0
    assert calls.pop() == ((place[0], None), {**expected, "format": "standalone", "best": False})
    assert main(["watch", "done", "--runs-dir", str(runs), "--last"]) == 0
    assert calls.pop()[1]["best"] is False


def test_the_agent_that_comes_with_rookery_is_no_run(calls, runs, capsys):
    """It is watched and exported by its name; a run of that name would come first."""
    place = ("hockey", str(runs))
    assert main(["watch", "hockey", "--runs-dir", str(runs), "--opponent", "weak"]) == 0
    args, wishes = calls.pop()
    assert args == place and wishes["opponent"] == "weak"
    assert main(["export", "hockey", "--runs-dir", str(runs), "--standalone", "a.py"]) == 0
    assert calls.pop()[0] == ("hockey", "a.py")
    (runs / "done").rename(runs / "hockey")
    assert main(["export", "hockey", "--runs-dir", str(runs), "--standalone", "a.py"]) == 0
    assert calls.pop()[0] == (str(runs / "hockey"), "a.py")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resume", "dne"], "there is no run 'dne'"),
        (["resume", "done", "--steps", "0"], "`steps` should be an integer > 0, got 0"),
        (["resume", "done", "--set", "stpes=3"], "--set stpes=3: unknown key `stpes`; did you mean `steps`?"),
        (["resume", "done", "--set", "num_envs=3"], "`num_envs` cannot change when a run is resumed; these can: steps"),
        (["resume", "done", "--set", "steps"], "--set steps: should be KEY=VALUE"),
        (["resume", "done", "--step", "3"], "unknown flag --step; did you mean --steps?"),
        (["eval", "done", "--games", "3", "--episodes", "4"], "`--games` = 3 and `--episodes` = 4 are two names"),
        (["eval", "done", "--episodes", "0"], "episodes should be a positive integer, got 0"),
        (["watch", "done", "--out", "a.avi"], "out should name a file ending in .mp4, .gif or .webp"),
        (["watch", "done", "--out", "a.gif", "--live"], "not both"),
        (["watch", "done", "--fps", "0"], "fps should be a positive integer, got 0"),
        (["watch", "done", "--seed", "-1"], "seed should be an integer >= 0 and < 9223372036854775808, got -1"),
        (["watch", "done", "--out", f"{__file__}/a.gif"], "test_train_verb.py is a file"),
        (
            ["eval", "done", "--seed", str(2**63)],
            "seed should be an integer >= 0 and < 9223372036854775808",
        ),
        (["export", "done", "--onnx", str(Path(__file__).parent)], "is a folder: name a file"),
        (["export", "hockey"], "the agent hockey that comes with rookery can only be exported with --standalone"),
        (["export", "hokcey", "--standalone"], "there is no run 'hokcey'"),
    ],
)
def test_bad_input_about_a_run(calls, runs, capsys, words, message):
    """Status 2, one line, and nothing is loaded."""
    assert main([*words, "--runs-dir", str(runs)]) == 2
    assert message in capsys.readouterr().err
    assert not calls


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    """`rookery COMMAND --help` says what the command does and shows it in use."""
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])
    assert exit_info.value.code == 0
    text = capsys.readouterr().out
    assert f"example: rookery {command}" in text
    assert "--json" in text


# --- the table of runs --------------------------------------------------------------------------------------------


def test_the_table_knows_each_run(runs):
    """The last to start comes first; figures come from metrics and evaluations."""
    killed, done = table(runs)
    assert (done["name"], done["world"], done["learner"], done["state"]) == ("done", "CartPole-v1", "ppo", "finished")
    assert (done["steps"], done["episodes"], done["steps_per_second"]) == (600, 9, 600.0)
    assert (done["last_eval"], done["best_eval"]) == (450.0, 480.0)
    assert (killed["state"], killed["steps"], killed["episodes"], killed["best_eval"]) == ("interrupted", 500, 7, None)


def test_a_run_with_a_process_in_it_is_running(runs):
    """And with none, it was interrupted."""
    with Lock(runs / "killed" / "run.lock"):
        assert table(runs)[0]["state"] == "running"
    assert table(runs)[0]["state"] == "interrupted"


def test_broken_folders_do_not_hide_the_others(runs, capsys):
    """Whatever lies about in the folder, there is a table."""
    for name, text in {
        "empty": "",
        "garbage": "\x00{",
        "list": "[1]",
        "odd": '{"world": 3, "step": "x"}\n{"kind',
    }.items():
        run = runs / name
        run.mkdir()
        for file in ("config.json", "metrics.jsonl", "evaluations.jsonl", "summary.json", "run.json"):
            (run / file).write_text(text)
    (runs / "folder" / "config.json").mkdir(parents=True)
    (runs / "file").write_text("")
    (runs / "loop").symlink_to(runs / "loop")
    rows = {row["name"]: row for row in table(runs)}
    assert set(rows) == {"done", "killed", "empty", "garbage", "list", "odd"}
    assert rows["garbage"]["state"] == "unreadable"
    assert main(["runs", "--runs-dir", str(runs)]) == 0
    assert "480" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith("done"))


def test_envs_time_and_speed_of_each_run(tmp_path, capsys):
    """While a run is under way they are those of its last progress, afterwards those of its end. What a checkpoint took
    is not the run's time."""
    start = {"kind": "start", "step": 0, "time": 100.0, "world": "CartPole-v1", "learner": "ppo", "num_envs": 8}
    progress = {"kind": "progress", "step": 500, "time": 101.0, "steps_per_second": 50.0, "seconds": 80.0}
    saved = {"kind": "checkpoint", "step": 500, "time": 101.0, "seconds": 0.25}
    end = {"kind": "end", "step": 600, "time": 102.0, "reason": "finished", "steps_per_second": 40.0, "seconds": 7500.0}
    make_run(tmp_path, "under_way", [start, {**progress, "num_envs": 16}, saved])
    make_run(tmp_path, "over", [start, progress, saved, end])
    make_run(tmp_path, "odd", [start, {**progress, "seconds": -1e299}])
    rows = {row["name"]: (row["num_envs"], row["seconds"], row["steps_per_second"]) for row in table(tmp_path)}
    assert rows == {"under_way": (16, 80.0, 50.0), "over": (8, 7500.0, 40.0), "odd": (8, -1e299, 50.0)}
    assert main(["runs", "--runs-dir", str(tmp_path)]) == 0
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert all(column in shown["run"] for column in ("envs", "time", "steps/s"))
    assert "2 h 5 min" in shown["over"] and "1 min 20 s" in shown["under_way"]


def test_a_long_history_is_read_from_its_ends(tmp_path):
    """The first line and the last ones say all that the table needs."""
    start = {"kind": "start", "step": 0, "time": 1.0, "world": "a", "learner": "sac"}
    lines = [{"kind": "progress", "step": k, "time": 2.0, "episodes": k, "note": "x" * 100} for k in range(5_000)]
    make_run(tmp_path, "long", [start, *lines])
    (row,) = table(tmp_path)
    assert (row["world"], row["learner"], row["steps"], row["episodes"]) == ("a", "sac", 4_999, 4_999)


def test_no_runs_at_all(tmp_path, capsys):
    """An empty table says how to get one; JSON is JSON."""
    assert main(["runs", "--runs-dir", str(tmp_path / "none")]) == 0
    assert "there are no runs" in capsys.readouterr().out
    assert main(["runs", "--runs-dir", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": []}


def test_no_name_of_a_run_is_cut_on_a_narrow_terminal(tmp_path, monkeypatch, capsys):
    """What matters least is left out instead; where there is no terminal, nothing is."""
    name = "a_rather_long_name-ppo-s0_vec16"
    make_run(tmp_path, name, [{"kind": "start", "step": 0, "time": 1.0, "world": "CartPole-v1", "learner": "ppo"}])
    for columns, kept, gone in ((100, "steps/s", "learner"), (40, "last eval", "episodes")):
        monkeypatch.setenv("COLUMNS", str(columns))
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout.isatty", lambda: True)
            assert main(["runs", "--runs-dir", str(tmp_path)]) == 0
        told = capsys.readouterr().out
        assert name in told and kept in told and gone not in told and "…" not in told
        assert main(["runs", "--runs-dir", str(tmp_path)]) == 0
        whole = capsys.readouterr().out
        assert name in whole and "when" in whole


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", "2"], "--nodes is for a Ray cluster: give --on ray as well"),
        (["--address", "auto", "--on", "local"], "--address is for a Ray cluster: give --on ray as well"),
        (["--set", "cluster.nodes=2"], '`cluster.nodes` is for runs on a cluster: give `cluster.kind` = "ray" too'),
    ],
)
def test_options_of_a_cluster_need_one(words, message, tmp_path, monkeypatch, capsys):
    """They would have no effect."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", "CartPole-v1", "--steps", "64", *words]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "runs").exists()


def test_the_file_of_a_cluster_is_for_one_machine_too(calls, tmp_path):
    """With `--on local`."""
    (tmp_path / "on_ray.toml").write_text('world = "CartPole-v1"\n[cluster]\nkind = "ray"\nnodes = 4\n')
    assert main(["train", str(tmp_path / "on_ray.toml"), "--on", "local"]) == 0
    ((config,), _), *_ = calls
    assert (config.cluster.kind, config.cluster.nodes) == ("local", 4)


@pytest.mark.parametrize("command", ["train", "search"])
def test_options_of_a_world_are_in_the_help_of_that_world(command, capsys):
    """The general help has none of them, and says how to see them."""
    helps = {}
    for words in ([], ["gameboy"], ["crypto"], ["hockey"]):
        with pytest.raises(SystemExit):
            main([command, *words, "--help"])
        helps["".join(words)] = capsys.readouterr().out
    assert {name for name, text in helps.items() if "--rom" in text} == {"gameboy"}
    assert {name for name, text in helps.items() if "--lookback" in text} == {"crypto"}
    assert f"rookery {command} WORLD --help" in helps[""]


def test_the_help_of_an_atari_game_has_the_options_of_atari(capsys):
    """The id of a game is not the name of a world."""
    with pytest.raises(SystemExit):
        main(["train", "ALE/Pong-v5", "--help"])
    assert "--frame-skip" in capsys.readouterr().out
