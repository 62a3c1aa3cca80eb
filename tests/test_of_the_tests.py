"""The programs of `make test-times` and `make test-flaky`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import flaky
import times

SUSPECTS = """\
import itertools
import pytest

calls = itertools.count(1)

@pytest.fixture(scope="module")
def opened(request):
    request.addfinalizer(lambda: print("closed once"))

@pytest.fixture
def own():
    return []

@pytest.mark.slow
@pytest.mark.parametrize("word", ["a b"])
def test_third(opened, own, word):
    own.append(word)
    assert own == ["a b"] and next(calls) % 3

def test_good():
    pass
"""


def hunted(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(SUSPECTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\naddopts = -m 'not slow'\n")
    command = [sys.executable, flaky.__file__, "--times", "7", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_tests_that_fail_now_and_then_are_counted(tmp_path):
    """By what was noted, slow ones too, with new fixtures each time and one of its module; and what never fails."""
    for part, name in (("test-together", "test_third[a b]"), ("test-alone", "test_good")):
        folder = tmp_path / flaky.CACHE / part
        folder.mkdir(parents=True)
        (folder / "flaky").write_text(json.dumps(f"test_it.py::{name}") + "\n")
    done = hunted(tmp_path)
    assert done.returncode == 1 and "2 of 7 failed: test_it.py::test_third[a b]" in done.stdout
    assert "0 of 7 failed: test_it.py::test_good" in done.stdout
    assert done.stdout.count("closed once") == 1 and done.stdout.count("assert (") == 1


def test_without_suspects_nothing_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert flaky.main([]) == 0 and "TESTS=" in capsys.readouterr().out


@pytest.mark.slow
def test_each_phase_is_recorded(tmp_path, request):
    recorder, work = times.Recorder(tmp_path), "sum(range(10**7))"
    for wrapper in (recorder.pytest_runtest_setup, recorder.pytest_runtest_call):
        phase = wrapper(request.node)
        next(phase)
        subprocess.run([sys.executable, "-c", work], check=True)
        with pytest.raises(StopIteration):
            phase.send(None)
    rows = times.read(tmp_path)
    assert [(row["test"], row["phase"]) for row in rows] == [(request.node.nodeid, p) for p in ("setup", "call")]
    assert all(row["children"] > 0 and row["clock"] > 0 for row in rows)


def test_sums_are_reported_from_the_largest():
    rows = [
        {"test": f"tests/{name}.py::test[{case}]", "phase": phase, "clock": 1.0, "own": 1.0, "children": float(case)}
        for name, cases in (("a/x", 1), ("b/y", 3)) for case in range(cases) for phase in ("setup", "call")
    ]  # fmt: skip
    lines = [line.split() for line in times.report(rows)]
    folders = lines[lines.index(["CPU", "s", "own", "children", "clock", "tests", "folder"]) + 1 :][:2]
    assert folders == [["12.0", "6.0", "6.0", "6.0", "3", "tests/b"], ["2.0", "2.0", "0.0", "2.0", "1", "tests/a"]]
    assert ["12.0", "6.0", "6.0", "6.0", "3", "tests/b/y.py::test"] in lines
    assert lines[-2][:5] == ["14.0", "8.0", "6.0", "8.0", "4"]  # the sum of everything, last
