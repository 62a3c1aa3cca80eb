"""Fault 35: a study whose database answers for ever, or with gigabytes. It is given up, and the others are served."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from faults.hostile_databases import KINDS, SHOWN, make_hostile, make_sound
from rookery.errors import StudyError
from rookery.studies.storage import sqlite_file
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore
from rookery.web.run_folders import RunFolders
from rookery.web.study_views import open_studies, study_threads

SECONDS = 15.0  # for what takes up to 5 on a machine with nothing else to do
PEAK_MB = 1000
LISTED = {"no_distribution", "texts_for_numbers", "endless_pages"}  # what is wrong with them the list does not read
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a study of every kind, and a sound one."""
    folder = tmp_path_factory.mktemp("hostile") / "studies"
    sound = make_sound(folder / "sound")
    for kind in KINDS:
        make_hostile(kind, folder / kind, sound)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_every_kind_is_one_error_of_the_command(studies: Path) -> None:
    """Read in one process, whose memory stays small."""
    folders = [str(studies / name) for name in ("sound", *KINDS)]
    ended = subprocess.run(
        [sys.executable, "-m", "faults.study_readings", *folders], cwd=Path(__file__).parents[1], capture_output=True,
        text=True, timeout=250,
    )  # fmt: skip
    found = {Path(row["folder"]).name: row for row in map(json.loads, ended.stdout.splitlines())}
    assert list(found) == ["sound", *KINDS], ended.stderr
    assert found.pop("sound")["code"] == 0
    for kind, row in found.items():
        assert row["code"] == (0 if kind in SHOWN else 2), row
        assert "Traceback" not in row["text"] and len(row["text"]) < 2000, row
        assert row["seconds"] < SECONDS and row["peak_mb"] < PEAK_MB, row
    assert (studies / "journal_that_names_a_file" / "victim").read_text() == "kept"


@pytest.mark.slow
def test_the_dashboard_serves_the_others_and_ends(studies: Path, tmp_path: Path) -> None:
    """The list, the sound study and each hostile one are answered; SIGTERM ends the server while it reads."""
    with Dashboard(studies, tmp_path / "errors") as dashboard:
        began = time.monotonic()
        rows = {row["name"]: row for row in dashboard.get("/api/studies")[1]["studies"]}
        assert time.monotonic() - began < SECONDS
        assert rows["sound"]["trials"] == 3 and rows["sound"]["error"] is None
        unread = {name for name, row in rows.items() if row["error"] or row["unread"]}
        assert unread >= set(rows) - {"sound", *SHOWN, *LISTED}
        for name in rows:
            began = time.monotonic()
            status, _ = dashboard.get(f"/api/studies/studies/{name}/trials")
            assert status in ((200,) if name == "sound" else (200, 404, 409, 504)), name
            assert time.monotonic() - began < SECONDS, name
        assert dashboard.get("/api/studies/studies/sound")[1]["best_value"] == 3.0
        assert dashboard.peak_mb() < PEAK_MB
    assert dashboard.seconds_to_end < SECONDS and dashboard.code == 0
    assert "Traceback" not in (tmp_path / "errors").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_a_dashboard_that_reads_for_ever(name: str, tmp_path: Path) -> None:
    """A reader that never returns, as from a drive that does not answer, in the study and where folders are listed."""
    make_sound(tmp_path / "studies" / "sound")
    with Dashboard(tmp_path / "studies", tmp_path / "errors", hangs=True, sent=signal.Signals[name]) as dashboard:
        dashboard.ask("/api/studies/studies/sound")
        time.sleep(0.5)
        assert dashboard.get("/api/health")[0] == 200
    assert dashboard.seconds_to_end < SECONDS and dashboard.code == 0


def test_a_hung_study_does_not_hold_up_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten that never return, and one that does."""
    monkeypatch.setattr(open_studies, "LIST_SECONDS", 6.0)
    folder = tmp_path / "studies"
    sound = make_sound(folder / "sound")
    hung = [shutil.copytree(sound, folder / f"a{k}") for k in range(10)]
    known = open_studies.OpenStudies(RunFolders([folder]))
    row = known._row

    def _row(place: str, name: str) -> Any:
        if folder / name in hung:
            time.sleep(30)
        return row(place, name)

    monkeypatch.setattr(known, "_row", _row)
    rows = {row["name"]: row for row in known.rows()}
    assert rows["sound"]["error"] is None and rows["sound"]["trials"] == 3
    assert all("not answered" in rows[each.name]["error"] for each in hung)


def test_what_failed_slowly_is_not_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_threads, "SLOW_SECONDS", 0.0)
    failures, calls = study_threads.SlowFailures(), []
    for _ in range(3):
        with pytest.raises(StudyError), failures.watching("x"):
            calls.append(time.sleep(0.5))
            raise StudyError("slow")
    assert len(calls) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["endless_view", "trigger", "generated_column", "journal_that_names_a_file", "pipe"])
def test_a_search_does_not_write_into_one(kind: str, studies: Path, tmp_path: Path) -> None:
    """Optuna's own storage is opened by the same checks."""
    folder = tmp_path / "study"
    shutil.copytree(studies / kind, folder, ignore=lambda *_: ["study.db"] if kind == "pipe" else [])
    if kind == "pipe":
        os.mkfifo(folder / "study.db")
    began = time.monotonic()
    with pytest.raises((StudyError, OSError)):
        StudyStore.open(StudyFolder(folder), patience=1.0)
    assert time.monotonic() - began < SECONDS
    assert not (folder / "victim").exists() or (folder / "victim").read_text() == "kept"


def test_a_sound_file_is_read_as_by_sqlite_alone(studies: Path) -> None:
    """By all ways of fetching rows, in batches smaller and larger than those that are read at once."""
    with_limits = sqlite_file.open_to_read(studies / "many_studies" / "study.db")
    plain = sqlite_file.sqlite3.connect(studies / "many_studies" / "study.db")
    text = "SELECT study_id, study_name FROM studies ORDER BY study_id LIMIT 2345"
    wanted = plain.execute(text).fetchall()
    assert with_limits.execute(text).fetchall() == wanted
    assert list(with_limits.execute(text)) == wanted
    cursor = with_limits.execute(text)
    first = [cursor.fetchone(), *cursor.fetchmany(7), next(cursor), *cursor.fetchmany(1500)]
    assert [*first, *cursor.fetchall()] == wanted and cursor.fetchone() is None and cursor.fetchmany(3) == []
    with_limits.close()
    plain.close()


class Dashboard:
    """`rookery dashboard` in a process of its own, ended by a signal."""

    def __init__(self, folder: Path, errors: Path, hangs: bool = False, sent: int = signal.SIGTERM) -> None:
        words = ["-c", HANGING] if hangs else ["-m", "rookery"]
        self._errors, self._sent = open(errors, "wb"), sent  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, *words, "dashboard", "--runs-dir", str(folder), "--port", "0", "--json"],
            stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self._waiting: list[HTTPConnection] = []

    def __enter__(self) -> Dashboard:
        assert self._process.stdout is not None
        self._port = int(json.loads(self._process.stdout.readline())["url"].rpartition(":")[2])
        return self

    def __exit__(self, *_: object) -> None:
        began = time.monotonic()
        self._process.send_signal(self._sent)
        try:
            self.code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.code = self._process.wait()
        self.seconds_to_end = time.monotonic() - began
        for connection in self._waiting:
            connection.close()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._errors.close()

    def ask(self, path: str) -> HTTPConnection:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", path)
        self._waiting.append(connection)
        return connection

    def get(self, path: str) -> tuple[int, Any]:
        answer = self.ask(path).getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if body[:1] in (b"{", b"[") else body

    def peak_mb(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024


HANGING = """
import sys, threading
from rookery.cli.main import main
from rookery.web.study_views import open_studies

def hang(*_):
    threading.Event().wait()

open_studies.OpenStudies.find = hang
threading.Thread(target=hang).start()  # not a daemon: the interpreter would wait for it
sys.exit(main(sys.argv[1:]))
"""
