"""Which runs are seeds of one experiment, what a comparison says, and what deleting leaves alone."""

from __future__ import annotations

import json

import pytest

from rookery.monitor.statistics import bootstrap_interval
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import RunGroup, differences, group_rows, group_runs
from rookery.training.storage.runs_table import delete_runs
from training.storage.stored import stored_run


def test_runs_that_differ_in_the_seed_are_one_group(tmp_path):
    """Threads, workers, names and options of other learners do not matter; the learner's own options do."""
    runs = [
        stored_run(tmp_path, "a-s0_vec8"),
        stored_run(
            tmp_path,
            "a-s1_vec8",
            seed=1,
            workers=2,
            backend="process",
            ppo={"clip": 0.2, "threads": 2},
            sac={"tau": 0.1},
        ),
        stored_run(tmp_path, "b", seed=2, ppo={"clip": 0.3}),
        stored_run(tmp_path, "a-s0_vec8"),
    ]
    groups = group_runs(runs)
    assert [(group.name, len(group.runs)) for group in groups] == [
        ("a_vec8 (2 seeds)", 2), ("b", 1), ("a-s0_vec8-2", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["", "[]", '{"ppo": 3, "seed": [1], "learner": {}}'])
def test_a_damaged_config_is_a_group_of_its_own(content, tmp_path):
    runs = [stored_run(tmp_path, "good"), stored_run(tmp_path, "bad")]
    runs[1].config.write_text(content)
    assert len(group_runs(runs)) == 2
    assert len(group_rows(group_runs(runs))) == 2
    differences(runs)


def test_a_row_has_the_interval_of_the_last_evaluation(tmp_path):
    (row,) = group_rows([RunGroup("one", [stored_run(tmp_path, "one", (10.0, 30.0, 20.0))])])
    assert (row["last_eval"], row["best_eval"], row["steps"]) == (20.0, 30.0, 3000)
    assert row["interval"] == [15.0, 25.0]
    assert row["seconds"] == pytest.approx(35.0)


def test_the_interval_of_an_older_run_is_from_its_standard_deviation(tmp_path):
    """It has not recorded the ends."""
    run = stored_run(tmp_path, "old", (20.0,))
    run.metrics.write_text(run.metrics.read_text().replace("eval/return_low", "eval/other"))
    ((low, high),) = (row["interval"] for row in group_rows([RunGroup("old", [run])]))
    half = 2.093 * 26.0 / 19**0.5  # Student's t, 20 episodes
    assert (low, high) == (pytest.approx(20 - half, rel=1e-3), pytest.approx(20 + half, rel=1e-3))


def test_seeds_are_one_row_with_a_bootstrap_interval(tmp_path):
    runs = [stored_run(tmp_path, f"r-s{seed}", (value,), seed=seed) for seed, value in enumerate((1.0, 2.0, 3.0, 90.0))]
    (row,) = group_rows(group_runs(runs))
    assert row["last_eval"] == 2.5 and row["runs"] == ["r-s0", "r-s1", "r-s2", "r-s3"]
    assert row["interval"] == [float(end) for end in bootstrap_interval([1.0, 2.0, 3.0, 90.0])]


def test_a_run_without_anything_is_still_a_row(tmp_path):
    run = RunDir.create(tmp_path, "empty")
    (row,) = group_rows(group_runs([run]))
    assert row["last_eval"] is None and row["interval"] is None and row["seconds"] is None


def test_only_what_differs_is_named(tmp_path):
    one = stored_run(tmp_path, "one", steps=100, sac={"tau": 0.1})
    two = stored_run(
        tmp_path, "two", steps=100, ppo={"clip": 0.1, "threads": 1}, sac={"tau": 0.2}, extra=True,
        monitor={"panel": False},
    )  # fmt: skip
    assert differences([one, two]) == {"ppo.clip": [0.2, 0.1], "extra": [None, True]}


def test_deleting_frees_what_it_says(tmp_path):
    run = stored_run(tmp_path / "runs", "old", (1.0,))
    (run.path / "big").write_bytes(b"x" * 100_000)
    done = delete_runs(run, runs_dir=tmp_path / "runs")
    assert done.names == ["old"] and done.freed >= 100_000 and not done.kept
    assert not run.path.exists()


def test_a_run_that_is_in_use_is_kept(tmp_path):
    run, free = stored_run(tmp_path, "busy"), stored_run(tmp_path, "free")
    with run.lock():
        done = delete_runs(run, free, runs_dir=tmp_path)
    assert done.names == ["free"] and "in use by process" in done.kept["busy"] and run.config.exists()


def test_links_are_not_followed(tmp_path):
    """A run that is a link stays; a link in a run is removed, and what it leads to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    base = tmp_path / "runs"
    run, elsewhere = stored_run(base, "run"), stored_run(tmp_path / "others", "elsewhere")
    (run.path / "checkpoints").symlink_to(outside)
    (base / "link").symlink_to(elsewhere.path)
    done = delete_runs(run, RunDir(base / "link"), elsewhere, runs_dir=base)
    assert done.names == ["run"]
    assert "is a link" in done.kept["link"] and "is not in" in done.kept["elsewhere"]
    assert (outside / "precious").exists() and elsewhere.config.exists()


def test_checkpoints_in_another_folder_are_kept(tmp_path):
    """A config may name any folder."""
    run = stored_run(tmp_path / "runs", "run", checkpoints={"dir": str(tmp_path / "saved")})
    (tmp_path / "saved" / "run").mkdir(parents=True)
    done = delete_runs(run, runs_dir=tmp_path / "runs")
    assert done.names == ["run"] and str(tmp_path / "saved") in done.notes[0]
    assert (tmp_path / "saved" / "run").is_dir()


def test_a_folder_that_cannot_be_deleted_is_named(tmp_path, monkeypatch):
    run = stored_run(tmp_path, "stuck")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    assert "Permission denied" in delete_runs(run, runs_dir=tmp_path).kept["stuck"]
    assert json.loads(run.config.read_text())
