"""The original hockey game on Box2D that benchmarks/transfer.py plays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

# Where warnings are errors, importing Box2D ends the process: this import ignores them, and so comes first.
pytest.importorskip("Box2D")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def transfer():
    """The benchmark's module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import transfer

        yield transfer


def test_recorded_steps_are_met(transfer):
    """Errors, goals and catches are as they must be."""
    assert [row.passed for row in transfer.step_rows()] == [True, True]


def test_a_game_of_scripts_ends_and_can_be_repeated(transfer):
    """By a goal or at the limit; the same seeds play the same games."""

    def play(strong: bool) -> tuple:
        return transfer.play(transfer.Script(strong, 1), transfer.Script(True, 2), 4)

    assert play(True) == play(True) != play(False)
    assert 0 < play(True).length <= 251


def test_player_two_sees_the_table_turned_by_half(transfer):
    """Positions and velocities negated, players swapped, angles as they are."""
    game = transfer.Game(3)
    game.reset()
    for _ in range(20):
        game.step([np.array([1.0, 0.5, 1.0, 0.0]), np.array([0.3, -0.4, -1.0, 0.0])])
    one, two = game.observe(0), game.observe(1)
    turn = np.array([-1, -1, 1, -1, -1, 1])
    assert np.abs(one[:12]).max() > 0.1
    np.testing.assert_array_equal(two[:12], np.concatenate([turn * one[6:12], turn * one[:6]]))
    np.testing.assert_array_equal(two[12:16], -one[12:16])
    np.testing.assert_array_equal(two[16:18], one[[17, 16]])


def test_a_held_puck_is_still_held_after_a_reset(transfer):
    """As in the original; the puck is with its holder after the first step."""
    game = transfer.Game(0)
    game.hold = [0, 9]
    game.reset()
    game.step(np.zeros((2, 4)))
    assert game.hold == [0, 8]
    assert game.observe(1)[12:14] == pytest.approx(game.observe(1)[:2], abs=0.5)
