"""Games between two players: sides, seeds, counts, and that they are the same however many are played at once."""

from __future__ import annotations

from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rookery.errors import OptionError, RestartLimit, WorldError
from rookery.training.evaluation.match import GameEnvs, Match
from rookery.training.evaluation.win_record import WinRecord
from rookery.training.players.agents import Script, seated
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import World, duel_of, find, two_player_form
from training.tug import SEAT, TUG, Puller, Scripted, Tug, agent, play_games

HOCKEY = duel_of(find("hockey", options={"time_limit": 60}))
HOCKEY_SEAT = seat_of(*HOCKEY.spaces)
SCRIPTED = World("scripted", Scripted, kernel=False)
WEAK, STRONG, NONE = Script("weak"), Script("strong"), Script("none")


def tug(**options) -> World:
    return World("tug", Tug, kernel=False, env_kwargs=options)


def hockey_player(name: str, **options):
    learner = "ppo" if name != "chooses" else "dqn"
    seat = HOCKEY_SEAT if name != "chooses" else Seat(HOCKEY_SEAT.observation_space, spaces.Discrete(8))
    return seated(agent(learner, seed=len(name), seat=seat), name, HOCKEY_SEAT, **options)


# --- the same games, whatever is beside them ----------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("against", ["strong", "another", "itself", "who chooses"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_hockey_is_the_same_in_any_batch(against, deterministic):
    me = hockey_player("me", deterministic=deterministic)
    other = {
        "strong": STRONG,
        "another": hockey_player("another", deterministic=False),
        "itself": me,
        "who chooses": hockey_player("chooses", deterministic=deterministic),
    }[against]

    def results(batch: int):
        with closing(GameEnvs(HOCKEY, batch)) as games:
            played = Match(games, (me, other), 14, seed=3).play()
        assert played is not None
        return played.winners.tolist(), played.returns.tobytes(), played.lengths.tolist()

    alone = results(1)
    assert alone == results(7) == results(20)


def test_tug_is_the_same_in_any_batch_and_backend():
    me, other = (seated(agent(seed=k), str(k), SEAT, deterministic=False) for k in (1, 2))
    alone = play_games(TUG, me, other, 20, seed=3)
    assert alone.won and alone.lost
    assert play_games(TUG, me, other, 20, seed=3, batch=7) == alone
    with closing(GameEnvs(TUG, 2, "process")) as games:
        assert games.envs.backend == "process"
        assert Match(games, (me, other), 20, seed=3).play().record() == alone
        assert Match(games, (me, other), 20, seed=4).play().record() != alone
        assert Match(games, (me, other), 20, seed=3).play().record() == alone


def test_more_games_go_on_from_fewer():
    with closing(GameEnvs(TUG, 3)) as games:
        few = Match(games, (Puller(0.1), NONE), 6, seed=1).play()
        many = Match(games, (Puller(0.1), NONE), 12, seed=1).play()
    assert few.winners.tolist() == many.winners[:6].tolist()


# --- sides and counts ---------------------------------------------------------------------------------------------


def test_sides_alternate_and_each_two_games_begin_alike():
    one, other = Puller(0.5), Puller(0.5)
    with closing(GameEnvs(TUG)) as games:
        results = Match(games, (one, other), 6, seed=0).play()
    starts = [view[0] for view in one.seen if view[0, 1] == 0]
    assert len(starts) == 6
    for even, odd in zip(starts[0::2], starts[1::2], strict=True):
        assert even[0] == -odd[0] and even[2] == odd[2]
    assert len({float(start[2]) for start in starts}) == 3
    assert results.winners[0::2].tolist() == (-results.winners[1::2]).tolist()  # as strong as each other
    assert results.lengths[0::2].tolist() == results.lengths[1::2].tolist()
    assert one.begun == other.begun == [0] * 6


def test_who_pulls_harder_wins_from_both_sides():
    record = play_games(TUG, Puller(1.0), Puller(-1.0), 10, seed=0)
    assert (record.won, record.drawn, record.lost) == (10, 0, 0)
    assert record.returns > 0
    lost = play_games(TUG, Puller(-1.0), Puller(1.0), 10, seed=0)
    assert (lost.lost, lost.returns, lost.lengths) == (10, -record.returns, record.lengths)


def test_returns_are_of_games_from_the_side_that_has_rewards():
    with closing(GameEnvs(TUG, 4)) as games:
        results = Match(games, (Puller(0.25), NONE), 8, seed=0).play()
    assert results.returns[0::2].tolist() == (0.25 * results.lengths[0::2]).tolist()
    assert np.isnan(results.returns[1::2]).all()
    assert results.record().returns == pytest.approx(results.returns[0::2].mean())


def test_nobody_is_asked_about_envs_without_a_game():
    player = Puller(0.1)
    with closing(GameEnvs(TUG, 5)) as games:
        record = Match(games, (player, NONE), 3, seed=0).play().record()
    assert record.games == 3
    assert max(len(view) for view in player.seen) == 3
    assert sorted(player.begun) == [0, 1, 2]


def test_stopping_and_progress():
    told: list[int] = []
    play_games(TUG, Puller(1.0), NONE, 9, seed=0, batch=4, progress=told.append)
    assert told == sorted(told) and told[-1] == 9
    with closing(GameEnvs(TUG)) as games:
        assert Match(games, (Puller(1.0), NONE), 9, 0).play(stop=lambda: games.envs.closed is False) is None
        again = Match(games, (Puller(1.0), NONE), 9, 0).play().record()
    assert again == play_games(TUG, Puller(1.0), NONE, 9, 0)


# --- scripts ------------------------------------------------------------------------------------------------------


def test_the_world_plays_its_scripts():
    weak = play_games(SCRIPTED, WEAK, STRONG, 10, seed=0, batch=3)
    strong = play_games(SCRIPTED, STRONG, WEAK, 10, seed=0)
    assert (weak.won, weak.lost) == (strong.lost, strong.won)
    assert strong.won > strong.lost
    assert play_games(SCRIPTED, STRONG, Puller(1.0), 10, seed=0).lost > 0
    still = play_games(SCRIPTED, Puller(1.0), NONE, 10, seed=0, batch=10)
    assert still == play_games(SCRIPTED, Puller(1.0), Puller(0.0), 10, seed=0)


def test_scripts_of_hockey():
    weak = play_games(HOCKEY, WEAK, STRONG, 40, seed=1, batch=40)
    strong = play_games(HOCKEY, STRONG, WEAK, 40, seed=1, batch=9)
    assert (weak.won, weak.drawn, weak.lost) == (strong.lost, strong.drawn, strong.won)
    with closing(GameEnvs(HOCKEY)) as games:  # which remembers nothing of the match before
        Match(games, (STRONG, STRONG), 2, seed=1).play()
        assert Match(games, (NONE, NONE), 4, seed=1).play().record() == play_games(HOCKEY, NONE, NONE, 4, seed=1)


def test_a_world_without_scripts_says_so():
    with pytest.raises(OptionError, match="tug has no script 'strong'"):
        play_games(TUG, Puller(1.0), STRONG, 2, seed=0)


# --- worlds that are not duels, or break ---------------------------------------------------------------------------


class Alone(gym.Env):
    """For one player."""

    observation_space, action_space = SEAT.observation_space, spaces.Discrete(2)


def test_worlds_that_are_no_games_for_two():
    with pytest.raises(WorldError, match=r"CartPole-v1 is not a two-player game.* that come with rookery it is hockey"):
        duel_of(find("CartPole-v1"))
    with pytest.raises(
        WorldError,
        match=r"alone is not a two-player game: it should be a kernel world with num_agents = 2, or the action of",
    ):
        GameEnvs(World("alone", Alone, kernel=False))
    with pytest.raises(WorldError, match="its infos hold no 'obs_agent_two'"):
        play_games(tug(tell="winner"), Puller(1.0), NONE, 1, seed=0)
    with pytest.raises(WorldError, match=r"does not say who won: the final info of a game should hold 'winner'"):
        play_games(tug(tell="view"), Puller(1.0), NONE, 1, seed=0)


def test_a_game_whose_env_broke_is_played_again():
    whole = play_games(tug(), Puller(0.1), NONE, 4, seed=0)
    with closing(GameEnvs(tug(breaks_at=9), 1, on_failure="restart")) as games:
        assert Match(games, (Puller(0.1), NONE), 4, seed=0).play().record() == whole
        assert games.envs.restarts > 0
    with closing(GameEnvs(tug(breaks_at=2), 1, on_failure="restart")) as games, pytest.raises(RestartLimit):
        Match(games, (Puller(0.1), NONE), 4, seed=0).play()


# --- the form for two ---------------------------------------------------------------------------------------------


def test_the_form_for_two_keeps_the_options():
    options = {"opponent": "strong", "mode": "defense", "discrete": True, "action_fineness": 3}
    one = find("hockey", options=options)
    duel = duel_of(one)
    assert (duel.name, duel.source) == ("hockey", "rookery/Hockey-v0")
    assert duel.env_kwargs == {"mode": "defense", "player_two": "strong"}
    kept = two_player_form(one, training=True)
    assert kept.spaces[1] == spaces.MultiDiscrete([14, 14])
    assert seat_of(*kept.spaces) == Seat(*one.spaces)
    assert duel_of(duel) == duel
    assert duel_of(find("hockey")).env_kwargs == {"player_two": "weak"}  # as HockeyOne has it
    assert duel_of(find("rookery/Hockey-v0", options={"rows": 2})).env_kwargs == {}


def test_halves_of_spaces():
    def half(space):
        seat = seat_of(SEAT.observation_space, space)
        return None if seat is None else seat.action_space

    assert half(spaces.MultiDiscrete([3, 4, 3, 4])) == spaces.MultiDiscrete([3, 4])
    assert half(spaces.MultiDiscrete([3, 4])) is None
    assert half(spaces.Box(-1, 1, (3,))) is None
    assert half(spaces.Box(np.float32([-1, 0]), np.float32([1, 1]))) is None
    assert half(spaces.Box(-1, 1, (2, 2))) is None


# --- records ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "games", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (850, 1000, 0.8265, 0.8708)]
)
def test_intervals(count, games, low, high):
    """As in Wilson's tables."""
    assert WinRecord(count, 0, games - count, 0.0, 0.0).interval(count) == pytest.approx((low, high), abs=1e-4)


def test_a_record_in_words_and_figures():
    record = WinRecord(30, 12, 8, 4.5, 120.0)
    assert str(record) == "won 60.0 % (46.2 to 72.4), drawn 24.0 %, lost 16.0 % (8.3 to 28.5) of 50 games"
    assert record.as_json() == {
        "games": 50, "won": 30, "drawn": 12, "lost": 8, "win_rate": 0.6, "draw_rate": 0.24, "loss_rate": 0.16,
        "win_rate_interval": list(record.interval(30)), "loss_rate_interval": list(record.interval(8)),
        "return_mean": 4.5, "length_mean": 120.0,
    }  # fmt: skip
