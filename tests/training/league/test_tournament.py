"""Tournaments: everyone meets everyone alike, the result is the same each time, and ratings follow from it."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.errors import OptionError, WorldError
from rookery.training.league.ratings import PairResults, spearman
from rookery.training.league.tournament import play_tournament
from rookery.training.players.agents import Script, seated
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import World, duel_of, find
from training.tug import SEAT, TUG, Puller, Scripted, Tug, agent, play_games, write_agent

pytestmark = pytest.mark.usefixtures("all_allowed")

HOCKEY = duel_of(find("hockey", options={"time_limit": 60}))
SCRIPTED = World("scripted", Scripted, kernel=False)


def pullers(count):
    return [Puller(strength) for strength in np.linspace(0.1, 0.9, count)]


def tug_agents(count, **options):
    return [seated(agent(seed=seed), f"agent {seed}", SEAT, **options) for seed in range(count)]


def hockey_agents(count):
    seat = seat_of(*HOCKEY.spaces)
    made = [seated(agent(seed=seed, seat=seat), f"agent {seed}", seat) for seed in range(count - 1)]
    chooses = Seat(seat.observation_space, find("hockey", learner="dqn").spaces[1])
    return [*made, seated(agent("dqn", seat=chooses), "chooses", seat)]


def same(one, other):
    return np.array_equal(one.won, other.won) and np.array_equal(one.drawn, other.drawn)


def test_everyone_meets_everyone():
    """As often as asked for, and nobody meets itself."""
    results = play_tournament(TUG, pullers(5), 6, seed=1)
    assert np.array_equal(results.games, 6 * (1 - np.eye(5)))


def test_the_stronger_one_wins():
    """Who pulls harder has the higher share, win rate and rating."""
    results = play_tournament(TUG, pullers(5), 40, seed=1)
    for figures in (results.win_rates, results.scores, [rating.mu for rating in results.rate()]):
        assert np.all(np.diff(figures) > 0)


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_games_are_those_that_two_would_play_alone(batch):
    """Each pair's games are the ones of `play_games`, however many are played at once, chances included."""
    players = tug_agents(4, deterministic=False)
    results = play_tournament(TUG, players, 10, seed=5, batch=batch)
    for a in range(4):
        for b in range(a + 1, 4):
            record = play_games(TUG, players[a], players[b], 10, seed=5)
            assert (results.won[a, b], results.drawn[a, b], results.won[b, a]) == (
                record.won,
                record.drawn,
                record.lost,
            )


def test_hockey_is_the_same_in_any_batch():
    """With agents of both kinds, scripts, and one that stands still."""
    players = [*hockey_agents(3), Script("weak"), Script("strong"), Script("none")]
    one, other = (play_tournament(HOCKEY, players, 8, seed=2, batch=batch) for batch in (None, 7))
    assert same(one, other)
    record = play_games(HOCKEY, players[0], players[4], 8, seed=2)
    assert (one.won[0, 4], one.drawn[0, 4]) == (record.won, record.drawn)


def test_the_order_of_players_does_not_matter():
    """With sides changed as often for each, the result of others' order is the same, rearranged; ratings too."""
    players = tug_agents(5)
    order = np.array([3, 0, 4, 2, 1])
    one = play_tournament(TUG, players, 8, seed=9)
    other = play_tournament(TUG, [players[k] for k in order], 8, seed=9)
    assert same(PairResults(one.won[np.ix_(order, order)], one.drawn[np.ix_(order, order)]), other)
    assert np.allclose([one.rate()[k].mu for k in order], [rating.mu for rating in other.rate()], rtol=1e-6)


def test_it_is_the_same_each_time_and_another_with_another_seed():
    """Results and ratings bit for bit."""
    one, again, other = (play_tournament(TUG, tug_agents(6), 20, seed=seed) for seed in (4, 4, 5))
    assert same(one, again) and one.rate() == again.rate()
    assert not same(one, other)


def test_equals_share_the_games():
    """Against its own copy a player wins as often as it loses: starts are the same from both sides."""
    results = play_tournament(TUG, [*tug_agents(1), *tug_agents(1)], 20, seed=1)
    assert results.won[0, 1] == results.won[1, 0]
    assert results.rate()[0].mu == pytest.approx(results.rate()[1].mu)


def test_scripts_sit_on_either_side():
    """They are the world's to play: their seats are requested nothing, and others' actions do not linger there."""
    results = play_tournament(
        SCRIPTED, [Script("weak"), Puller(0.5), Script("none"), Script("strong")], 20, seed=1, batch=5
    )
    assert results.scores.argsort().tolist() == [2, 0, 1, 3]


def test_players_from_files_take_part(tmp_path):
    """One instance for each env, which hears of each new game."""
    place = write_agent(tmp_path, "def reset(self): self.steps = 0\ndef act(self, obs): return [0.7]")
    results = play_tournament(TUG, [FilePlayer(place, SEAT), Puller(0.1), Puller(0.9)], 20, seed=1)
    assert results.scores.argsort().tolist() == [1, 0, 2]


def test_progress_is_told():
    """Up to the last game."""
    told = []
    play_tournament(TUG, pullers(3), 4, seed=1, batch=2, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told) and told[-1] == (12, 12)


def test_what_cannot_be_played_is_refused():
    """With what is wrong, by name."""
    with pytest.raises(OptionError, match="at least two players"):
        play_tournament(TUG, pullers(1), 4, seed=1)
    with pytest.raises(OptionError, match="games"):
        play_tournament(TUG, pullers(2), 0, seed=1)
    with pytest.raises(OptionError, match="no script 'weak'"):
        play_tournament(TUG, [Script("weak"), *pullers(1)], 2, seed=1)
    for tell, missing in (("view", "winner"), ("winner", "obs_agent_two")):
        with pytest.raises(WorldError, match=missing):
            play_tournament(World("tug", Tug, kernel=False, env_kwargs={"tell": tell}), pullers(2), 2, seed=1)


# --- ratings from results -----------------------------------------------------------------------------------------


def drawn_from(skills, games, seed=0):
    """Results of players whose chances are known."""
    rng = np.random.default_rng(seed)
    count = len(skills)
    won, drawn = np.zeros((2, count, count), np.int64)
    for a in range(count):
        for b in range(a + 1, count):
            chance = 1 / (1 + np.exp(-(skills[a] - skills[b])))
            won[a, b], drawn[a, b], won[b, a] = rng.multinomial(games, [0.8 * chance, 0.2, 0.8 * (1 - chance)])
            drawn[b, a] = drawn[a, b]
    return PairResults(won, drawn)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_ratings_agree_with_results(seed):
    """In a league of twenty with small differences: Spearman's correlation is near 1."""
    results = drawn_from(np.linspace(-1, 1, 20), 50, seed)
    values = np.array([rating.value for rating in results.rate()])
    assert spearman(values, results.scores) > 0.99
    assert spearman(values, results.win_rates) > 0.95


def test_winning_more_is_rated_higher():
    """One more game won, and nothing else changed, raises the rating."""
    results = drawn_from(np.zeros(6), 20)
    won, drawn = results.won.copy(), results.drawn.copy()
    won[2, 3] += 1
    won[3, 2] -= 1
    better = PairResults(won, drawn)
    assert better.rate()[2].mu > results.rate()[2].mu and better.rate()[3].mu < results.rate()[3].mu


def test_who_wins_or_loses_all_games_is_still_rated():
    """Far above or below the rest, by finite numbers."""
    won = np.array([[0, 50, 50], [0, 0, 25], [0, 25, 0]])
    top, *rest = PairResults(won, np.zeros_like(won)).rate()
    assert 5 < top.mu - rest[0].mu < 50 and rest[0].mu == pytest.approx(rest[1].mu, abs=1e-6)


def test_more_games_make_surer():
    """The deviation falls."""
    few, many = (drawn_from(np.zeros(4), games).rate()[0].sigma for games in (10, 100))
    assert many < few < 25 / 3


def test_spearman_knows_the_same_order():
    """Also backwards, and with ties."""
    values = np.array([3.0, 1.0, 2.0, 2.0])
    assert spearman(values, values**3) == pytest.approx(1.0)
    assert spearman(values, -values) == pytest.approx(-1.0)
