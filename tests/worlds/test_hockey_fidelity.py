"""Recorded steps of the original (hockey_rows.npz, all kinds of contact), made again in our world."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import hockey_fidelity as fidelity
from hockey_fidelity import replay

FILE = Path(__file__).with_name("hockey_rows.npz")


@pytest.fixture(scope="module")
def rows():
    """The recorded rows."""
    return fidelity.read_rows(FILE)


@pytest.fixture(scope="module")
def replayed(rows):
    """The rows as our world steps them."""
    return replay(rows, plain=True)


@pytest.mark.slow
def test_free_steps_are_the_original_s(rows, replayed):
    """Without contact, every number is met to the precision of the record."""
    free = ~rows[:, fidelity.CONTACT].any(axis=1)
    error = np.abs(replayed["next_observation"] - rows[:, fidelity.NEXT_OBSERVATION])[free]
    assert len(error) > 50 and error.max() < 1e-4


@pytest.mark.slow
def test_steps_with_contact_are_nearly_the_original_s(rows, replayed):
    """Of positions, 90 % are met within 0.001; of velocities within 0.01."""
    contact = rows[:, fidelity.CONTACT].any(axis=1)
    error = np.abs(replayed["next_observation"] - rows[:, fidelity.NEXT_OBSERVATION])[contact]
    near = np.percentile(error, 90, axis=0)
    assert near[[0, 1, 2, 6, 7, 8, 12, 13]].max() < 0.001
    assert near[[3, 4, 5, 9, 10, 11, 14, 15]].max() < 0.01


def test_catches_goals_and_rewards_are_the_original_s(rows, replayed):
    """Every catch, goal and reward is met."""
    assert np.array_equal(replayed["catch"], rows[:, fidelity.CATCH])
    assert np.array_equal(replayed["winner"], rows[:, fidelity.WINNER])
    assert replayed["reward"] == pytest.approx(rows[:, fidelity.REWARD], abs=1e-3)


def test_compiled_code_steps_as_plain_python_does(rows, replayed):
    """The same numbers to the last bit, compiled or not."""
    compiled = replay(rows)
    for name, plain in replayed.items():
        assert np.array_equal(compiled[name], plain), name


def test_the_command_reports_percentiles_and_shares(capsys):
    """As a table, or as JSON."""
    assert fidelity.main([str(FILE)]) == 0
    assert "catches by player 1" in capsys.readouterr().out
    assert fidelity.main([str(FILE), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["without contact"]["puck x"]["99"] < 1e-3 and found["catches by player 1"]["recall"] == 1.0


@pytest.mark.parametrize(
    "content",
    [None, b"no zip", {"rows": np.zeros((3, 4))}, {"other": np.zeros((3, 65))}, {"rows": np.full((3, 65), 7.0)}],
)
def test_a_bad_file_is_refused_in_one_line(content, tmp_path, capsys):
    """Missing, broken, of another shape or without the array: exit status 2."""
    path = tmp_path / "file.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    assert fidelity.main([str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_rows_of_which_something_is_unknown_are_left_out(rows, tmp_path):
    """NaN in one row would be the error of all."""
    holed = rows[:3].copy()
    holed[0, 57], holed[1, 30] = np.nan, np.nan
    np.savez(tmp_path / "holed.npz", rows=holed)
    assert np.array_equal(fidelity.read_rows(tmp_path / "holed.npz"), rows[2:3])


def test_replay_refuses_rows_of_another_width():
    """The number of columns is checked."""
    with pytest.raises(ValueError, match="65 columns"):
        replay(np.zeros((2, 64)))


def test_replay_takes_no_rows_and_refuses_what_is_no_action(rows):
    """One row's NaN would keep all others from being stepped."""
    assert replay(rows[:0])["next_observation"].shape == (0, 18)
    bad = rows[:3].copy()
    bad[1, 24] = np.nan
    with pytest.raises(ValueError, match="row 1: the actions must be finite"):
        replay(bad)
