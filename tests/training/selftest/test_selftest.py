"""`rookery selftest`: what it finds, and that it finds what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.errors import MissingExtra
from rookery.training import selftest
from rookery.training.selftest import FAILED, OK, SKIPPED, CheckFailed, NotChecked, RunChecks, differences


def given(monkeypatch, **checks):
    monkeypatch.setattr(
        selftest, "_checks", lambda runs: {name.replace("_", " "): check for name, check in checks.items()}
    )


def raising(error):
    def check():
        raise error

    return check


def test_each_check_has_a_line_and_failures_an_exit_status(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    good, bad = (lambda: "as it should be"), raising(CheckFailed("not the same"))
    given(
        monkeypatch, one=good, two=bad, three=raising(NotChecked("no GPU")), four=raising(MissingExtra("pip install x"))
    )
    assert main(["selftest"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == [OK, FAILED, SKIPPED, FAILED]
    assert lines[1].endswith("two: not the same") and lines[3].endswith("four: pip install x")
    assert lines[4].startswith("selftest FAILED: 4 checks in") and f"kept in {tmp_path}" in lines[5]


def test_what_cannot_be_checked_is_no_failure(monkeypatch, capsys):
    given(monkeypatch, one=raising(NotChecked("no GPU")), two=lambda: "good")
    assert main(["selftest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["kept"] is None and [check["state"] for check in found["checks"]] == [SKIPPED, OK]


@pytest.mark.slow
def test_the_engine_is_as_it_should_be():
    """Compiled loops against those in Python, and workers against one process."""
    for check in (selftest.check_loops, selftest.check_workers):
        try:
            assert "bit for bit" in check()
        except NotChecked:
            assert check is selftest.check_loops and not selftest.loops.COMPILED


def test_other_numbers_and_leftovers_are_found(monkeypatch):
    monkeypatch.setattr(selftest, "trajectory", lambda backend: backend)
    with pytest.raises(CheckFailed, match="different numbers"):
        selftest.check_workers()
    monkeypatch.setattr(selftest, "trajectory", lambda backend: "")
    monkeypatch.setattr(selftest, "_shared_blocks", lambda: ["/memfd:rookery"])
    with pytest.raises(CheckFailed, match="shared memory remains"):
        selftest.check_workers()


def test_one_bit_is_a_difference():
    one = {"policy": {"w": np.array([1.0, 2.0])}, "step": 3}
    assert differences(one, {"policy": {"w": np.array([1.0, 2.0])}, "step": 3}) == []
    assert differences(one, {"policy": {"w": np.nextafter([1.0, 2.0], 3)}, "step": 3}) == ["/policy/w"]
    assert differences(one, {"policy": {"w": np.array([1, 2])}, "step": 4}) == ["/policy/w", "/step"]
    assert differences(one, {"policy": {}, "step": 3}) == ["/policy"]


@pytest.mark.slow
def test_a_run_that_cannot_start_is_named_by_its_own_words(tmp_path, monkeypatch):
    runs = RunChecks(tmp_path)
    start = runs._start
    monkeypatch.setattr(runs, "_start", lambda name: start(name, world="NoSuchWorld-v0"))
    with pytest.raises(CheckFailed, match=r"exit status 2: rookery: .*NoSuchWorld"):
        runs.check_training()
    with pytest.raises(NotChecked, match="no run was killed"):
        runs.check_resume()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_everything_is_well_on_this_machine(tmp_path):
    """The whole command, in a folder without the sources; nothing is left in it."""
    command = [sys.executable, "-m", "rookery", "selftest"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n") == 10 and not any(tmp_path.iterdir())
