"""`rookery study X --watch`: it goes on while the study does, whatever happens to it, and never writes."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.trial import TrialState
from rich.console import Console

from rookery.studies.report.report import Reporter
from rookery.studies.report.watching import IDLE_SECONDS, PATIENCE_SECONDS, StudyWatch
from rookery.studies.storage.study_view import StudyReader
from studies.example_studies import CONFIG, add_trial, make_folder

TOTAL = {**CONFIG, "search": {"n_trials": 2, "verify": 1}}


class Scene:
    """A watch whose clock moves by its own pauses; between two looks, the next event happens."""

    def __init__(self, studies_dir: Path, *events: Callable[[], object], terminal: bool = False) -> None:
        self.events, self.time, self.pauses = list(events), 0.0, 0
        self.console = Console(file=io.StringIO(), force_terminal=terminal, width=100, height=50)
        self.watch = StudyWatch(
            lambda: StudyReader.find("demo", studies_dir),
            Reporter(),
            every=10.0,
            console=self.console,
            sleep=self.sleep,
            clock=lambda: self.time,
        )

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.pauses += 1
        assert self.pauses < 50, "the watch does not end"
        if self.events:
            self.events.pop(0)()


def test_it_ends_when_the_study_is_complete_and_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = make_folder(tmp_path)
    study.set_user_attr("rookery:config", TOTAL)
    scene = Scene(
        tmp_path,
        lambda: add_trial(study, 1.0),
        lambda: add_trial(study, 2.0),
        lambda: study.set_user_attr("rookery:verified:1", {"values": {"1000": 1.5}, "iqm": 1.5, "runs": []}),
    )
    report = scene.watch.run()
    shown = capsys.readouterr()
    assert report is not None and report.figures.ended == 2
    assert scene.pauses == 3
    assert "the study demo is complete" in shown.out
    assert shown.out.splitlines()[0].startswith("demo · no trial has begun")
    assert "best 2 (trial 1)" in shown.out


def test_it_waits_for_a_study_that_is_being_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def create() -> None:
        study = make_folder(tmp_path)
        study.set_user_attr("rookery:config", {**TOTAL, "search": {"n_trials": 1, "verify": 0}})
        add_trial(study, 1.0)

    Scene(tmp_path, lambda: None, create).watch.run()
    shown = capsys.readouterr()
    assert "holds no studies" in shown.out
    assert "1 finished" in shown.out
    assert "is complete" in shown.out


def test_a_study_that_never_comes_ends_it_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path)
    assert scene.watch.run() is None
    assert scene.time == PATIENCE_SECONDS
    assert "there is no study 'demo'" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["row", "folder"])
def test_a_study_that_is_deleted_ends_it_in_a_sentence(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import optuna

    study = make_folder(tmp_path)
    study.ask()

    def delete() -> None:
        if what == "row":
            optuna.delete_study(study_name="demo", storage=f"sqlite:///{tmp_path / 'demo' / 'study.db'}")
        else:
            shutil.rmtree(tmp_path / "demo")

    Scene(tmp_path, delete).watch.run()
    assert "the study demo was deleted" in capsys.readouterr().out


def test_a_locked_database_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rookery.studies.storage.sqlite_file.BUSY_SECONDS", 0.01)
    study = make_folder(tmp_path)
    study.set_user_attr("rookery:config", {**TOTAL, "search": {"n_trials": 1, "verify": 0}})
    study.ask()
    other = sqlite3.connect(tmp_path / "demo" / "study.db", isolation_level=None)

    def release() -> None:
        other.execute("ROLLBACK")
        study.tell(0, state=TrialState.FAIL)

    scene = Scene(tmp_path, lambda: other.execute("BEGIN EXCLUSIVE"), release)
    scene.watch.run()
    shown = capsys.readouterr()
    assert "locked" in shown.out
    assert "is complete" in shown.out
    other.close()


def test_a_search_that_stopped_ends_it_after_a_while(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = make_folder(tmp_path)
    study.set_user_attr("rookery:config", TOTAL)
    add_trial(study, 1.0)
    scene = Scene(tmp_path)
    scene.watch.run()
    assert scene.time == IDLE_SECONDS
    assert "nothing in training for 60 s" in capsys.readouterr().out


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    study = make_folder(tmp_path)
    study.ask()

    def interrupt() -> None:
        raise KeyboardInterrupt

    report = Scene(tmp_path, interrupt, terminal=True).watch.run()
    assert report is not None and report.figures.counts["running"] == 1


def test_a_terminal_gets_the_whole_report(tmp_path: Path) -> None:
    study = make_folder(tmp_path)
    study.set_user_attr("rookery:config", {**TOTAL, "search": {"n_trials": 1, "verify": 0}})
    before = {}

    def finish() -> None:
        add_trial(study, 4.0)
        before.update({path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()})

    scene = Scene(tmp_path, finish, terminal=True)
    scene.watch.run()
    shown = scene.console.file.getvalue()  # type: ignore[attr-defined]
    assert "best trial: 0" in shown
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
