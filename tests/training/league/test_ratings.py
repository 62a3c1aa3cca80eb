"""Ratings: who wins rises, surely and the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.training.league.ratings import BETA, Rating, update


@pytest.mark.parametrize("gap", [-20.0, -3.0, 0.0, 3.0, 20.0])
def test_a_win_raises_and_a_loss_lowers(gap):
    """Whoever wins is held to be better than before, the other worse; never by more than if it was a surprise."""
    first, second = Rating(25.0 + gap, 2.0), Rating(25.0, 2.0)
    won, lost = update(first, second, 1), update(first, second, -1)
    assert won[0].mu > first.mu and won[1].mu < second.mu
    assert lost[0].mu < first.mu and lost[1].mu > second.mu
    assert (won[0].mu - first.mu > first.mu - lost[0].mu) == (gap < 0)


def test_a_draw_brings_both_together():
    """The better one falls and the other rises; equals stay where they are."""
    better, worse = update(Rating(30.0, 2.0), Rating(20.0, 2.0), 0)
    assert better.mu < 30.0 and worse.mu > 20.0
    assert update(Rating(), Rating(), 0)[0].mu == Rating().mu


def test_a_draw_is_half_a_win():
    """Halfway between what a win and a loss would have done."""
    first, second = Rating(30.0, 2.0), Rating(24.0, 3.0)
    drawn, won, lost = (update(first, second, outcome)[0].mu for outcome in (0, 1, -1))
    assert drawn == pytest.approx((won + lost) / 2)


def test_every_game_makes_surer_and_learning_less_sure():
    """Deviations fall with games, and rise a little for who goes on learning."""
    first, second = update(Rating(), Rating(), 1)
    assert first.sigma < Rating().sigma and second.sigma < Rating().sigma
    assert first.sigma < first.drifted().sigma < first.sigma + 0.01
    assert first.drifted().mu == first.mu


def test_expectations_come_true():
    """Ratings settle where the share of games won is the one that they expect: by Bradley and Terry."""
    rng, rate, learned = np.random.default_rng(1), 0.7, []
    first, second = Rating(), Rating()
    for game in range(3000):
        first, second = update(first, second, 1 if rng.random() < rate else -1)
        spread = np.sqrt(first.sigma**2 + second.sigma**2 + 2 * BETA**2)
        learned += [1 / (1 + np.exp((second.mu - first.mu) / spread))] * (game > 1000)
    assert np.mean(learned) == pytest.approx(rate, abs=0.03)
    assert first.mu - second.mu == pytest.approx(np.log(rate / (1 - rate)) * np.sqrt(2) * BETA, abs=1.0)


def test_the_same_games_give_the_same_ratings():
    """To the bit; and ratings that were given are not changed."""
    given = Rating(28.0, 3.0)
    assert update(given, Rating(), 1) == update(given, Rating(), 1)
    assert given == Rating(28.0, 3.0)
