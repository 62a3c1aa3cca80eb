"""Links in a run's folder lead nowhere, and only what a run wrote is removed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.cli.main import main
from rookery.errors import FileError, OptionError, RookeryError, RunBusy, RunError
from rookery.files import open_plain, own_folder, read_plain, replace_file
from rookery.training.export.onnx_file import export_standalone
from rookery.training.storage.checkpoint import UNFINISHED, Checkpoints
from rookery.training.storage.run_dir import ADDED_TO, RunDir
from rookery.training.storage.runs_table import table
from training.runs import train

REPLACED = [".config.json.new", ".summary.json.new", ".run.json.new", "summary.json", ".metrics.jsonl.new", "anything"]


def resumed(run: RunDir, **options: Any) -> Any:
    return rookery.resume(run.path, steps=640, **options)


@pytest.mark.parametrize("name", ADDED_TO)
def test_a_run_with_a_link_in_it_is_not_continued(run: RunDir, treasure: Path, name: str) -> None:
    """Wherever it leads to stays as it is."""
    place = run.path / name
    target = treasure.parent if place.is_dir() or name in ("league", "videos") else treasure
    if os.path.lexists(place):
        place.rename(run.path.parent / f"moved-{name}")
    place.symlink_to(target)
    with pytest.raises(FileError, match="is a link"):
        resumed(run)
    assert treasure.read_text() == "three years of work"
    assert os.listdir(treasure.parent) == [treasure.name]


def test_links_where_a_run_writes_anew_are_replaced(run: RunDir, treasure: Path) -> None:
    """It goes on, and where they led to stays as it is."""
    for name in REPLACED:
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(treasure)
    assert resumed(run).total_steps == 640
    assert treasure.read_text() == "three years of work"
    assert not run.summary.is_symlink()


def test_export_does_not_write_through_a_link(run: RunDir, treasure: Path) -> None:
    """Neither where it writes beside the file, nor in place of it."""
    for name in (".agent.py.new", "agent.py"):
        (run.path / name).symlink_to(treasure)
    with pytest.raises(OptionError, match="exists already; --force"):
        export_standalone(run.path)
    assert export_standalone(run.path, overwrite=True) == run.path / "agent.py"
    assert not (run.path / "agent.py").is_symlink()
    assert treasure.read_text() == "three years of work"


def test_export_asks_before_it_overwrites(run: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Without a terminal it refuses, and says how to go on."""
    out = tmp_path / "mine.py"
    out.write_text("# mine")
    assert main(["export", str(run.path), "--standalone", str(out)]) == 2
    assert "mine.py exists already; --force" in capsys.readouterr().err
    assert out.read_text() == "# mine"
    assert main(["export", str(run.path), "--standalone", str(out), "--force"]) == 0
    assert out.read_text() != "# mine"


@pytest.mark.parametrize("name", ["plots", "videos", "tensorboard", "league"])
def test_a_folder_that_is_a_link_is_not_written_to(tmp_path: Path, treasure: Path, name: str) -> None:
    """Nor is anything made there."""
    (tmp_path / name).symlink_to(treasure.parent)
    with pytest.raises(FileError, match="is a link"):
        own_folder(tmp_path / name)


def test_files_are_replaced_and_links_are_not_followed(tmp_path: Path, treasure: Path) -> None:
    """A link in place of a file becomes a file; what it led to stays. One left beside by a killed process goes."""
    for name in ("config.json", ".config.json.new"):
        (tmp_path / name).symlink_to(treasure)
    replace_file(tmp_path / "config.json", [b"new"])
    assert (tmp_path / "config.json").read_bytes() == b"new"
    assert not (tmp_path / "config.json").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["config.json", "home"]
    assert treasure.read_text() == "three years of work"


def test_pipes_devices_and_endless_files_are_not_read(tmp_path: Path) -> None:
    """Otherwise reading would never end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(b"0" * 2048)
    for name in ("pipe", "endless", "."):
        with pytest.raises(FileError, match="not a regular file"):
            read_plain(tmp_path / name, 1024)
    with pytest.raises(FileError, match="larger than"):
        read_plain(tmp_path / "large", 1024)
    with pytest.raises(FileError):
        open_plain(tmp_path / "pipe", os.O_RDWR)


def test_a_second_name_of_a_file_keeps_its_contents(run: RunDir, treasure: Path) -> None:
    """Hard links look like files; what is appended or signed does not reach the other name."""
    metrics = run.metrics.read_bytes()
    for path in (run.path / "run.lock", run.metrics, run.evaluations):
        path.unlink(missing_ok=True)
        os.link(treasure, path)
    assert resumed(run).total_steps == 640
    assert treasure.read_text() == "three years of work"
    assert metrics  # there was something to append to
    os.link(treasure, run.path / "second")
    with run.lock(), pytest.raises(RunBusy):
        run.lock()
    assert treasure.read_text() == "three years of work"


def test_a_stale_lock_and_metrics_to_append_to_go_on_working(run: RunDir) -> None:
    """A run that was killed is resumed as before."""
    (run.path / "run.lock").write_text('{"pid": 1, "host": "elsewhere", "started": 0}')
    before = len(run.metrics.read_bytes().splitlines())
    assert resumed(run).total_steps == 640
    assert len(run.metrics.read_bytes().splitlines()) > before


# --- what is removed --------------------------------------------------------------------------------------------------


def test_checkpoints_of_another_run_are_never_removed(run: RunDir, tmp_path: Path) -> None:
    """A config that points to somebody's checkpoints is not followed without trust, and removes none even then."""
    outside = tmp_path / "checkpoints"
    theirs = Checkpoints(outside / run.path.name, run="f" * 32, own=False)
    for step in (1, 2, 10**9):
        theirs.save(step, {"agent": {}})
    (outside / run.path.name / f"{UNFINISHED}theirs").mkdir()
    before = sorted(os.listdir(outside / run.path.name))
    config = run.read_config()
    run.write_config({**config, "checkpoints": {**config["checkpoints"], "dir": str(outside), "keep": 1}})
    with pytest.raises(RunError, match=r"outside its own folder.*--trust"):
        resumed(run)
    assert sorted(os.listdir(outside / run.path.name)) == before
    for step in (256, 512):
        source = run.path / "checkpoints" / f"step-{step:012d}"
        source.rename(outside / run.path.name / source.name)
    (outside / run.path.name / f"step-{10**9:012d}").rename(tmp_path / "moved")
    resumed(run, trust=True)
    assert {*before} - {f"step-{10**9:012d}"} <= {*os.listdir(outside / run.path.name)}


def test_a_run_goes_on_in_the_checkpoint_folder_it_was_started_with(tmp_path: Path) -> None:
    """Without a question, and it prunes its own there."""
    checkpoints = {"every": 256, "keep": 1, "budget": 0, "dir": str(tmp_path)}
    result = train("ppo", tmp_path / "runs", steps=512, checkpoints=checkpoints)
    rookery.resume(result.path, steps=1024)
    left = os.listdir(tmp_path / result.run_name)
    assert len(left) <= 2 and f"step-{1024:012d}" in left


def test_old_checkpoints_in_a_runs_own_folder_are_its_own(tmp_path: Path) -> None:
    """Those from before there were ids are pruned unchanged; a link among them stays."""
    old = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        old.save(step, {"agent": {}})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"step-{4:012d}").symlink_to(tmp_path / "elsewhere")
    Checkpoints(tmp_path, keep=1, run="a" * 32).save(5, {"agent": {}})
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", f"step-{4:012d}", f"step-{5:012d}"]


def test_agents_of_a_league_do_not_lead_out_of_it(tmp_path: Path) -> None:
    """Their names come from a checkpoint."""
    from rookery.training.league.archive import Archive

    with pytest.raises(RookeryError, match="cannot be the name"):
        Archive(tmp_path, 3).restore_members({"../../home": {}})


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    """Writing fails without a name otherwise."""
    with pytest.raises(OSError, match=r"full\.json") as caught:
        replace_file(tmp_path / "full.json", _full())
    assert caught.value.filename == str(tmp_path / "full.json")
    assert os.listdir(tmp_path) == []


def _full() -> Any:
    yield json.dumps({}).encode()
    raise OSError(28, "No space left on device")


# --- what is not a file
# --------------------------------------------------------------------------------------------------

NODES: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "itself": lambda path: path.symlink_to(path),
    "nowhere": lambda path: path.symlink_to(path.parent.parent.parent / "made"),
}
PLACES = ["config.json", "run.json", "metrics.jsonl", "checkpoints", "newest/state.json"]


@pytest.mark.few(1)
@pytest.mark.parametrize("node", NODES)
def test_whatever_stands_in_place_of_a_file_is_answered(run: RunDir, node: str, tmp_path: Path) -> None:
    """At once, by what can be read or by one of our errors; nothing is made elsewhere."""
    saved = tmp_path / "saved"
    shutil.copytree(run.path, saved)
    newest = max(run.checkpoints.iterdir())
    for name in PLACES:
        place = newest / "state.json" if name.startswith("newest") else run.path / name
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        NODES[node](place)
        for way in (lambda: table(run.path.parent), lambda: rookery.load(run.path), lambda: resumed(run)):
            with suppress(RookeryError):
                way()
        shutil.rmtree(run.path)
        shutil.copytree(saved, run.path)
    assert sorted(os.listdir(tmp_path)) == ["runs", "saved"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """And not the one that is written first."""
    with pytest.raises(FileNotFoundError) as raised:
        replace_file(tmp_path / "missing" / "a.json", [b"{}"])
    assert raised.value.filename == str(tmp_path / "missing" / "a.json")
