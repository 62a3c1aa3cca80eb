"""The league during a run: who is drawn, what games change, who enters, and that it all goes on after a resume."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rookery.config.sections import LeagueOptions
from rookery.training.league.archive import OpponentRecord, PastAgent
from rookery.training.league.league import League, choose_opponent, draw_chances, priorities
from rookery.training.league.ratings import Rating
from training.league.agents import agent_tree


def member(name, outcomes):
    record = OpponentRecord()
    for outcome in outcomes:
        record.add_game(outcome)
    return PastAgent(name, 0, Rating(), record)


EASY, EVEN, HARD = member("easy", [1] * 50), member("even", [1, -1] * 25), member("hard", [-1] * 50)
NEW = member("new", [])


def frequencies(members, baselines, settings, draws=40_000):
    rng = np.random.default_rng(3)
    names, counts = np.unique(
        [choose_opponent(members, baselines, settings, *rng.random(2)).name for _ in range(draws)], return_counts=True
    )
    return dict(zip(names.tolist(), (counts / draws).tolist(), strict=True))


def test_priorities_are_powers_of_what_is_lost():
    """(1 - p)^hardness, with p drawn towards a half as long as there are few games."""
    assert NEW.record.win_rate == 0.5
    assert 0.45 < EVEN.record.win_rate < 0.55
    assert EASY.record.win_rate > 0.9 and HARD.record.win_rate < 0.1
    assert 0.5 < member("one", [1]).record.win_rate < 0.65
    for hardness in (0.0, 1.0, 2.0, 5.0):
        rates = np.array([m.record.win_rate for m in (EASY, EVEN, HARD)])
        assert np.allclose(priorities([EASY, EVEN, HARD], hardness), (1 - rates) ** hardness)


def test_latest_games_count_most():
    """A rate follows a learner that has become better, while the counts remember all."""
    now = member("x", [-1] * 500 + [1] * 300).record
    assert now.win_rate > 0.9 and (now.won, now.drawn, now.lost) == (300, 0, 500)


@pytest.mark.slow
def test_the_hard_ones_are_drawn_most():
    """In the shares that the weights give."""
    settings = LeagueOptions(pfsp=1, random=0, baseline=0)
    found = frequencies([EASY, EVEN, HARD], [], settings)
    weights = priorities([EASY, EVEN, HARD], 2.0)
    for name, share in zip(("easy", "even", "hard"), weights / weights.sum(), strict=True):
        assert found.get(name, 0.0) == pytest.approx(share, abs=0.01)


@pytest.mark.slow
def test_shares_are_kept():
    """Baselines get theirs; the rest goes to members, by rate or alike."""
    found = frequencies([EASY, HARD], ["weak", "strong"], LeagueOptions(pfsp=5, random=3, baseline=2))
    assert found["weak"] == pytest.approx(0.1, abs=0.01) and found["strong"] == pytest.approx(0.1, abs=0.01)
    easy, hard = priorities([EASY, HARD], 2.0)
    assert found["easy"] == pytest.approx(0.15 + 0.5 * easy / (easy + hard), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [LeagueOptions(), LeagueOptions(pfsp=0, random=1, baseline=3, hardness=1)])
def test_chances_are_how_often_each_is_drawn(settings):
    """As the page of a league tells them."""
    found = frequencies([EASY, EVEN, HARD], ["weak", "strong"], settings)
    rates = {member.name: member.record.win_rate for member in (EASY, EVEN, HARD)}
    chances = draw_chances(rates, ["weak", "strong"], settings)
    assert sum(chances.values()) == pytest.approx(1.0, abs=1e-4)
    for name, chance in chances.items():
        assert found.get(name, 0.0) == pytest.approx(chance, abs=0.01)
    assert draw_chances({}, [], settings) == {}


@pytest.mark.parametrize(
    ("members", "baselines", "settings", "names"),
    [
        ([], ["weak", "strong"], LeagueOptions(), {"weak", "strong"}),
        ([], [], LeagueOptions(), {"self"}),
        ([], ["weak"], LeagueOptions(baseline=0), {"self"}),
        ([EASY], [], LeagueOptions(), {"easy"}),
        ([EASY, HARD], [], LeagueOptions(pfsp=0, random=0, baseline=1), {"easy", "hard"}),
        ([EASY], ["weak"], LeagueOptions(pfsp=0, random=0, baseline=1), {"weak"}),
    ],
)
def test_somebody_is_always_drawn(members, baselines, settings, names):
    """Also from an empty archive, and without baselines."""
    assert set(frequencies(members, baselines, settings, 200)) == names


def league(folder, **settings):
    return League(folder, LeagueOptions(**settings), total_steps=2000, scripts=("weak", "strong"))


def play(made, steps):
    """A stretch of a run whose games are decided by a fixed stream, as a checkpoint would fix it."""
    told = []
    for step in steps:
        rng = np.random.default_rng(step)
        drawn = made.choose_opponent(*rng.random(2))
        made.add_game(drawn.name, int(rng.integers(-1, 2)))
        told.append(drawn)
        if made.due(step - 1, step):
            made.enter(step, agent_tree(step))
    return told


def test_it_goes_on_exactly_after_a_resume(tmp_path):
    """Draws, ratings and members are those of a run that was never stopped, though it was stopped late."""
    whole, parted = league(tmp_path / "a", size=4), league(tmp_path / "b", size=4)
    expected = play(whole, range(1, 1200))
    play(parted, range(1, 601))
    saved = json.loads(json.dumps(parted.state()))
    play(parted, range(601, 900))  # lost with the process
    again = league(tmp_path / "b", size=4)
    again.load(saved)
    assert play(again, range(601, 1200)) == expected[600:]
    assert again.state() == whole.state()
    names = [sorted(path.name for path in (tmp_path / side).iterdir()) for side in "ab"]
    assert names[0] == names[1] and len(names[0]) == 11


def test_games_move_ratings_and_counts(tmp_path):
    """Of both; games of someone who retired in the meantime count as well, those against oneself do not."""
    made = league(tmp_path, size=1)
    first = made.enter(100, agent_tree())
    made.enter(200, agent_tree())
    before = made.learner
    made.add_game("self", 1)
    assert made.learner == before
    made.add_game("step-100", 1)
    assert first.retired and first.record.won == 1
    assert made.learner.mu > before.mu and first.record.rating.mu < before.mu
    made.add_game("strong", -1)
    assert made.met["strong"].rating.mu > Rating().mu and made.met["strong"].lost == 1


def test_entering_by_schedule(tmp_path):
    """Twenty times in a run, or as often as told."""
    assert [step for step in range(0, 2000, 10) if league(tmp_path).due(step, step + 10)] == list(range(90, 2000, 100))
    made = league(tmp_path, every=300)
    assert made.due(250, 350) and made.due(0, 900) and not made.due(300, 590)


def test_entering_when_better(tmp_path):
    """The first one enters; then only who wins enough of the latest games against the archive, and again after that."""
    made = league(tmp_path, enter="when better", win_rate=0.6)
    assert made.due(0, 100)
    made.enter(100, agent_tree())
    assert not made.due(100, 200)
    for _ in range(50):
        made.add_game("weak", 1)  # no member
    assert not made.due(100, 200)
    for outcome in [-1] * 10 + [1] * 30:
        made.add_game("step-100", outcome)
    assert made.due(100, 200) and not made.due(100, 190)
    made.enter(200, agent_tree())
    assert not made.due(200, 300)


def test_members_have_the_learners_rating(tmp_path):
    """They are the learner, at the moment they enter."""
    made = league(tmp_path)
    for _ in range(20):
        made.add_game("strong", 1)
    entered = made.enter(100, agent_tree())
    assert entered.entered == entered.record.rating == made.learner
    assert made.load_policy(entered.name) is not None
