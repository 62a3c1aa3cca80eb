"""Code that a run names is imported only if this user has trained with it here, or says so."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rookery
from rookery.cli.main import main
from rookery.config import build_config
from rookery.errors import CheckpointError, RunError, WorldError
from rookery.gate import module_name
from rookery.training.curriculum.opponents import Opponents
from rookery.training.evaluation.evaluate import evaluate, evaluate_games
from rookery.training.export.onnx_file import export_standalone
from rookery.training.league.tournament import enter_tournament
from rookery.training.run.callbacks import Result
from rookery.training.show.watch import watch
from rookery.training.storage import trust
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import table
from training.runs import QUIET, SMALL

OPENING: dict[str, Callable[[RunDir], Any]] = {
    "eval": lambda run: evaluate(run.path, episodes=1),
    "eval with options": lambda run: evaluate(run.path, episodes=1, world_options={"size": 3}),
    "eval against others": lambda run: evaluate_games(str(run.path), games=1),
    "watch": lambda run: watch(run.path, out=run.path / "video.gif"),
    "resume": lambda run: rookery.resume(run.path, steps=10**6),
    "league": lambda run: enter_tournament([run], 2).hold(),
}


def name_world(run: RunDir, world: str) -> None:
    run.write_config({**run.read_config(), "world": world})


def train_on(world: str, folder: Path) -> Result:
    section = {**SMALL["ppo"], "threads": 1}
    return rookery.train(
        world, learner="ppo", num_envs=2, backend="serial", steps=64, runs_dir=str(folder), monitor=QUIET, ppo=section
    )


def forget(world: str, canary: Path) -> None:
    """As in a new process: the file was not imported yet."""
    del sys.modules[module_name(world.rpartition(":")[0])]
    canary.unlink()


@pytest.mark.parametrize("way", OPENING)
def test_a_downloaded_run_runs_no_code(run: RunDir, world: str, canary: Path, way: str) -> None:
    """Whatever is done with it, and however it vouches for itself."""
    file = Path(world.rpartition(":")[0])
    run.remember(code={str(file): trust._sha256(file)})
    name_world(run, world)
    with pytest.raises(RunError, match=r"you have not trained with this file on this machine.*--trust"):
        OPENING[way](run)
    assert not canary.exists()


def test_reading_a_run_never_imports(run: RunDir, world: str, canary: Path) -> None:
    """Its agent, its export and its row in the table are data."""
    name_world(run, world)
    assert rookery.load(run.path).act([[0.0] * 4]).shape == (1,)
    export_standalone(run.path, out=run.path.parent / "agent.py")
    assert [row["name"] for row in table(run.path.parent)] == ["downloaded"]
    assert not canary.exists()


def test_a_run_of_ones_own_is_opened_without_a_question(world: str, tmp_path: Path, canary: Path) -> None:
    """Also after its folder was moved; the file is known by its path and hash."""
    result = train_on(world, tmp_path / "runs")
    forget(world, canary)
    moved = shutil.move(result.path, tmp_path / "moved")
    assert evaluate(moved, episodes=1)["episodes"] == 1
    assert canary.exists()
    assert json.loads((Path(moved) / "run.json").read_text())["code"].keys() == {world.rpartition(":")[0]}


def test_a_file_that_was_changed_is_asked_about(world: str, tmp_path: Path, canary: Path) -> None:
    """The message says why, and trust goes on. Resuming with it counts as training."""
    result, file = train_on(world, tmp_path / "runs"), Path(world.rpartition(":")[0])
    file.write_text(f"{file.read_text()}\n# edited\n")
    forget(world, canary)
    with pytest.raises(RunError, match="the file is not the one that the run was made with"):
        evaluate(result.path, episodes=1)
    assert not canary.exists()
    rookery.resume(result.path, steps=96, trust=True)
    forget(world, canary)
    assert evaluate(result.path, episodes=1)["episodes"] == 1


def test_a_file_in_the_runs_own_folder_is_always_asked_about(world: str, tmp_path: Path, canary: Path) -> None:
    """Even one that is known, or that is reached by another way."""
    result, file = train_on(world, tmp_path / "runs"), Path(world.rpartition(":")[0])
    forget(world, canary)
    inside = shutil.move(file, result.path / file.name)
    file.symlink_to(inside)
    for path in (inside, result.path / "plots" / ".." / file.name, file):
        name_world(RunDir(result.path), f"{path}:Walk")
        with pytest.raises(RunError, match="lies in the run's own folder"):
            evaluate(result.path, episodes=1)
    assert not canary.exists()


def test_a_run_without_a_record_is_asked_about(world: str, tmp_path: Path, canary: Path) -> None:
    """As those are that were made before there were records."""
    result = train_on(world, tmp_path / "runs")
    forget(world, canary)
    (result.path / "run.json").write_text('{"created": 1.0}')
    with pytest.raises(RunError, match="the run has no record of the file"):
        evaluate(result.path, episodes=1)
    assert not canary.exists()


def test_somebody_at_the_terminal_decides(run: RunDir, world: str, canary: Path, monkeypatch: Any) -> None:
    """Once for all that a run names."""
    questions: list[str] = []
    monkeypatch.setattr(trust, "confirmed", lambda question: bool(questions.append(question)) or len(questions) > 1)
    name_world(run, world)
    with pytest.raises(RunError, match="you did not agree"):
        trust.check_run(run, build_config(run.read_config()), trust=False)
    assert not canary.exists()
    trust.check_run(run, build_config(run.read_config()), trust=False)
    assert len(questions) == 2 and "no record" in questions[0]


def test_the_command_has_a_flag_for_it(run: RunDir, world: str, canary: Path, capsys: pytest.CaptureFixture) -> None:
    """Without it, status 2 and the way to go on."""
    name_world(run, world)
    assert main(["eval", str(run.path), "--episodes", "1"]) == 2
    assert "--trust" in capsys.readouterr().err
    assert not canary.exists()
    main(["eval", str(run.path), "--episodes", "1", "--trust"])
    assert canary.exists()


def test_without_a_place_for_notes_a_run_is_asked_about(
    world: str, tmp_path: Path, canary: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Training goes on, and says so."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ROOKERY_STATE", str(tmp_path / "file" / "folder"))
    with caplog.at_level("INFO"):
        result = train_on(world, tmp_path / "runs")
    assert "could not be noted as yours" in caplog.text
    forget(world, canary)
    with pytest.raises(RunError, match="you have not trained with this file"):
        evaluate(result.path, episodes=1)
    assert evaluate(result.path, episodes=1, trust=True)["episodes"] == 1


def test_a_note_that_is_not_ours_alone_does_not_count(world: str, tmp_path: Path, canary: Path) -> None:
    """Whoever could write it could vouch for anything."""
    result = train_on(world, tmp_path / "runs")
    note = trust._note_file(world.rpartition(":")[0])
    assert note is not None
    forget(world, canary)
    note.chmod(0o666)
    with pytest.raises(RunError, match="you have not trained with this file"):
        evaluate(result.path, episodes=1)


def test_opponents_in_files_are_asked_about(run: RunDir, world: str, canary: Path) -> None:
    """Wherever a config names them."""
    agent, config = world.replace(":Walk", ":Agent"), run.read_config()
    for change in (
        {"opponents": [{"who": agent}]},
        {"phases": [{"opponents": [{"who": agent}]}]},
        {"evaluation": {**config["evaluation"], "opponents": [agent]}},
        {"league": {**config["league"], "baselines": [agent]}},
    ):
        run.write_config({**config, **change})
        with pytest.raises(RunError, match="it would run code"):
            rookery.resume(run.path, steps=10**6)
    assert not canary.exists()


def test_a_checkpoint_brings_in_no_opponents_from_files(world: str, tmp_path: Path, canary: Path) -> None:
    """Who was being played against is in it, and is looked up again."""
    archive = SimpleNamespace(find=lambda name: None)
    league: Any = SimpleNamespace(baselines=(), archive=archive)
    opponents = Opponents(SimpleNamespace(), None, tmp_path, league)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="its config does not"):
        opponents.number_for(world, deterministic=True, steps=0)
    assert not canary.exists()


def test_no_module_is_imported_by_its_name(run: RunDir, tmp_path: Path, canary: Path, monkeypatch: Any) -> None:
    """Gymnasium's own `make` would import what stands before the colon of an id."""
    (tmp_path / "strange_module.py").write_text(f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = tmp_path / "config.toml"
    config.write_text('world = "strange_module:Env-v0"')
    name_world(run, "strange_module:Env-v0")
    for way in (
        lambda: rookery.train(config),
        lambda: evaluate(run.path, episodes=1),
        lambda: rookery.resume(run.path, steps=1024),
    ):
        with pytest.raises(WorldError, match="not a registered Gymnasium id"):
            way()
    assert not canary.exists()
