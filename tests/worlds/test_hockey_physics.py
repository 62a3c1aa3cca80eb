"""Hockey, in plain Python: bodies obey their mechanics, and the game its rules."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from rookery.worlds.hockey import rules
from rookery.worlds.hockey.bodies import cos_sin
from rookery.worlds.hockey.field import FREE_HIGH_Y, PUCK, PUCK_MASS, PUCK_RADIUS, RACKET, RACKET_MASS, RACKET_POLYGONS
from rookery.worlds.hockey.free import PUCK_HELD
from rookery.worlds.hockey.rules import discrete_action, observe, write_info
from rookery.worlds.hockey.world import Hockey
from worlds.hockey_plain import IDLE, Table, plain_record

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import hockey_fidelity as fidelity
from hockey_fidelity import replay

ROWS = Path(__file__).with_name("hockey_rows.npz")
SHOOT_ONE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)


def area_and_centre(corners):
    """Area and centre of mass of a polygon, by the shoelace formula."""
    x, y = np.array(corners).T
    cross = x * np.roll(y, -1) - np.roll(x, -1) * y
    area = cross.sum() / 2
    return area, ((x + np.roll(x, -1)) * cross).sum() / (6 * area)


def test_rackets_mirror_each_other():
    """Both rackets have the area of 58 units of mass, and their centres of mass lie behind their origins."""
    area, centre = area_and_centre(RACKET)
    assert area * 200 / 1.2 == pytest.approx(RACKET_MASS, rel=1e-6)
    assert centre == pytest.approx(-0.12237549, abs=1e-6)
    assert area_and_centre(RACKET_POLYGONS[1]) == pytest.approx((area, -centre))


@pytest.mark.parametrize(("speed", "damping"), [(10.0, 0.05), (30.0, 10.0)])
def test_a_free_puck_is_slowed_by_damping_alone(speed, damping):
    """It moves on with its damped velocity; damping is strong above a speed of 25."""
    table = Table().place(PUCK, 5.0, 4.0, speed, 0.0)
    table.step()
    after = speed * (1 - 0.02 * damping)
    assert table.body(PUCK)[[0, 3]] == pytest.approx([5.0 + 0.02 * after, after])


def test_forces_move_rackets_mirrored_and_turn_them_alike():
    """A full push gives 6000 / 58 for a step, damped; player 2's goes the other way, its torque does not."""
    table = Table()
    table.step((1.0, 0.5, 0.3, 0.0) * 2)
    first, second = table.body(0), table.body(1)
    assert first[3:5] == pytest.approx([0.9 * 0.02 * 6000 / 58, 0.5 * 0.9 * 0.02 * 6000 / 58])
    assert second[3:5] == pytest.approx(-first[3:5])
    assert second[5] == pytest.approx(first[5]) and first[5] > 0


def test_actions_are_clipped():
    """Asking for more than 1 gives what 1 gives."""
    one, much = Table(), Table()
    one.step((1.0, -1.0, 1.0, 0.0) * 2)
    much.step((7.0, -9.0, 3.0, 0.0) * 2)
    assert np.array_equal(one.body(0), much.body(0)) and np.array_equal(one.body(1), much.body(1))


def test_a_racket_is_stopped_where_it_is_pushed_out_of_its_half():
    """Pushed back behind x = 1.5, it loses its velocity in x; pushed forward, it does not."""
    out, back = (Table().place(0, 1.49, 4.0, vx=-1.0) for _ in range(2))
    out.step((-1.0, *IDLE[1:]))
    back.step((0.5, *IDLE[1:]))
    assert out.body(0)[3] == 0.0
    assert back.body(0)[3] == pytest.approx(0.9 * (-1.0 + 0.5 * 0.02 * 6000 / 58))


def test_a_racket_does_not_cross_the_centre_line():
    """Driven forward at any speed, it comes back."""
    table = Table().place(0, 4.0, 4.0, vx=9.0)
    furthest = 0.0
    for _ in range(100):
        table.step((1.0, *IDLE[1:]))
        furthest = max(furthest, table.state.x[0])
    assert 4.4 < furthest < 5.1


def test_a_racket_turned_too_far_is_turned_back():
    """Beyond 60 degrees it turns back, whatever is requested."""
    table = Table().place(0, 3.0, 4.0, angle=1.3)
    table.step((0.0, 0.0, 1.0, 0.0, *IDLE[4:]), times=30)
    assert table.state.angle[0] < 1.3


@pytest.mark.parametrize("speed", [5.0, 24.0, 60.0, 90.0])
def test_a_puck_bounces_off_a_wall_it_would_have_passed(speed):
    """It keeps 0.95 of its speed, at any speed, and stays on the table."""
    table = Table().place(PUCK, 5.0, 6.9, 0.0, speed)
    before = speed
    for _ in range(4):
        before = table.state.vy[PUCK]
        table.step()
        assert table.state.y[PUCK] < FREE_HIGH_Y - PUCK_RADIUS + 0.01
        if table.state.vy[PUCK] < 0.0:
            break
    damping = 0.05 if before <= 25 else 10.0
    assert table.state.vy[PUCK] == pytest.approx(-0.95 * before * (1 - 0.02 * damping), rel=1e-9)


def test_a_slow_puck_does_not_bounce():
    """Below an approach speed of 1, it stays at the wall."""
    table = Table().place(PUCK, 5.0, FREE_HIGH_Y - PUCK_RADIUS - 0.005, 0.0, 0.5)
    table.step()
    assert abs(table.state.vy[PUCK]) < 1e-9


def test_puck_and_racket_exchange_momentum_only():
    """What a racket gains in a collision, the puck loses."""
    table = Table(keep_mode=0).place(0, 3.0, 4.0, vx=2.0, angle=0.3).place(PUCK, 3.25, 4.1, -20.0, 3.0)
    table.step()
    before = RACKET_MASS * 0.9 * np.array([2.0, 0.0]) + PUCK_MASS * 0.999 * np.array([-20.0, 3.0])
    after = RACKET_MASS * table.body(0)[3:5] + PUCK_MASS * table.body(PUCK)[3:5]
    assert table.state.vx[PUCK] > 0.0
    assert after == pytest.approx(before, rel=1e-6)


def test_overlapping_rackets_are_pushed_apart():
    """After a few steps no more of them overlaps than the solver allows."""
    table = Table().place(0, 4.9, 4.0).place(1, 5.05, 4.0)
    table.step(times=5)
    assert table.state.x[1] - table.state.x[0] > 0.2


def test_a_racket_that_meets_a_coming_puck_keeps_it_for_fifteen_steps_and_then_shoots():
    """The puck is carried ahead of the racket; at the end, 60 is added to its velocity."""
    table = Table().place(0, 3.0, 4.0).place(PUCK, 3.3, 4.0, -5.0, 0.0)
    table.step()
    assert table.state.hold == [15, 0] and table.info.reward_touch_puck == 1.0
    for left in range(14, 1, -1):
        table.step()
        assert table.state.hold == [left, 0] and table.info.reward_touch_puck == 0.0
        assert table.state.x[PUCK] - table.state.x[0] == pytest.approx(0.31, abs=0.02)
    table.step()
    assert table.state.hold == [0, 0]
    assert table.state.vx[PUCK] == pytest.approx(60.0, abs=1.0)


def test_shooting_ends_the_hold_at_once():
    """Along the racket's angle."""
    table = Table().place(0, 3.0, 4.0, angle=0.5).place(PUCK, 3.3, 4.1, -5.0, 0.0)
    table.step()
    table.step(SHOOT_ONE)
    assert table.state.hold == [0, 0]
    assert math.atan2(table.state.vy[PUCK], table.state.vx[PUCK]) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("keep_mode", "vx"), [(1, 5.0), (0, -5.0)])
def test_no_catch_of_a_leaving_puck_or_without_keep_mode(keep_mode, vx):
    """A puck that moves away, or any puck without keep mode, is not kept."""
    table = Table(keep_mode=keep_mode).place(0, 3.0, 4.0).place(PUCK, 3.3, 4.0, vx, 0.0)
    table.step()
    assert table.state.hold == [0, 0]


@pytest.mark.parametrize(("x", "winner"), [(0.95, -1), (9.05, 1)])
def test_a_puck_in_a_goal_ends_the_game(x, winner):
    """The scorer gets 10, the other -10."""
    table = Table().place(PUCK, x, 4.0)
    reward, ended = table.step()
    other = plain_record(Hockey().info_dtype)
    other_reward = write_info(table.state, table.params, other, 1)
    assert ended and table.info.winner == winner and other.winner == -winner
    assert reward == pytest.approx(10 * winner, abs=1) and other_reward == pytest.approx(-10 * winner, abs=1)


def test_the_game_looks_the_same_from_both_sides():
    """A game turned by half, with players swapped, goes on as the game turned by half."""
    rng = np.random.default_rng(3)
    table, turned = Table(seed=1), Table(seed=1)
    for own, other in ((0, 1), (1, 0), (2, 2)):
        x, y, angle = table.body(own)[:3]
        turned.place(other, 10.0 - x, 8.0 - y, angle=angle)
    seen, seen_turned = np.zeros(18), np.zeros(18)
    for _ in range(60):
        action = rng.uniform(-1, 1, 8)
        table.step(action)
        turned.step(np.roll(action, 4))
        observe(table.state, seen, 0)
        observe(turned.state, seen_turned, 1)
        assert seen == pytest.approx(seen_turned, abs=1e-6)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_everything_stays_on_the_table(mode):
    """Whatever the players do, no body leaves the field or stops being a number."""
    rng = np.random.default_rng(mode)
    for game in range(3):
        table = Table(seed=game, mode=mode)
        action = rng.uniform(-1, 1, 8)
        for _ in range(80):
            action = rng.uniform(-1, 1, 8) if rng.random() < 0.1 else action
            _, ended = table.step(action)
            bodies = np.array([table.body(k) for k in range(3)])
            assert np.isfinite(bodies).all()
            assert (np.abs(bodies[:, 0] - 5.0) < 5.0).all() and (np.abs(bodies[:, 1] - 4.0) < 3.5).all()
            if ended:
                break


def test_starts_alternate_between_the_halves():
    """In a normal game the puck lies in player 1's half in odd episodes, in player 2's in even ones."""
    for episode in range(1, 9):
        x, y = Table(episode=episode).body(PUCK)[:2]
        side = -1 if episode % 2 else 1
        assert 1.0 <= side * (x - 5.0) <= 2.0 and abs(y - 4.0) <= 1.0


@pytest.mark.parametrize(("one_starts", "side"), [(1, -1), (0, 1)])
def test_who_starts_can_be_told(one_starts, side):
    """Then the puck lies in that player's half in every episode."""
    assert all(side * (Table(episode=k, one_starts=one_starts).state.x[PUCK] - 5.0) >= 1.0 for k in (1, 2))


def test_training_modes_place_player_two_and_the_puck():
    """Shooting: the puck on player 1's side. Defense: a shot of 60 toward player 1's goal in the first step."""
    for seed in range(20):
        shooting, defense = Table(seed=seed, mode=1, episode=2), Table(seed=seed, mode=2)
        assert 3.0 <= shooting.state.x[PUCK] <= 4.0
        assert 4.66 <= defense.state.x[1] <= 9.67 and 2.0 <= defense.state.y[1] <= 6.0
        push = np.array([defense.state.push_x, defense.state.push_y])
        assert np.hypot(*push) == pytest.approx(60.0)
        at_goal = defense.state.y[PUCK] - defense.state.x[PUCK] * push[1] / push[0]
        assert abs(at_goal - 4.0) <= 0.75


def test_closeness_is_paid_while_the_puck_is_in_the_own_half():
    """-30 dist / (250/60 T/2), for a puck that does not move away; direction is vx / (25 T)."""
    table = Table().place(0, 2.0, 4.0).place(PUCK, 4.0, 4.0, -1.0, 0.0)
    reward, _ = table.step()
    distance = table.state.x[PUCK] - table.state.x[0]
    assert reward == table.info.reward_closeness_to_puck == pytest.approx(-30 * distance / (250 / 60 * 125))
    assert table.info.reward_puck_direction == pytest.approx(table.state.vx[PUCK] / (25 * 250))
    table.place(PUCK, 4.0, 4.0, 1.0, 0.0)
    assert table.step()[0] == 0.0


def test_discrete_actions_cover_both_ways_of_each_axis():
    """0 nothing, then -x +x -y +y -angle +angle, last shoot; a finer grid has weaker actions too."""
    coarse = np.array([discrete_action(k, 2) for k in range(8)])
    expected = np.zeros((8, 4))
    for k, (axis, value) in enumerate([(0, -1), (0, 1), (1, -1), (1, 1), (2, -1), (2, 1), (3, 1)]):
        expected[k + 1, axis] = value
    assert np.array_equal(coarse, expected)
    fine = {discrete_action(k, 4) for k in range(1 + 6 * 3 + 1)}
    assert len(fine) == 20 and (0.0, 0.0, 0.0, 1.0) in fine


@pytest.mark.parametrize("strength", [1, 2])
def test_a_scripted_player_goes_after_the_puck_and_shoots_a_held_one(strength):
    """Behind the puck it pushes toward it, for either player; it shoots while less than 7 steps are left."""
    table = Table(player_one=strength, player_two=strength)
    table.place(0, 3.0, 4.0).place(1, 7.0, 4.0).place(PUCK, 5.0, 4.0)
    table.step()
    assert table.state.vx[0] > 0.5 and table.state.vx[1] < -0.5
    table.state.hold[0] = 7
    table.step()
    assert table.state.hold[0] == 6
    table.step()
    assert table.state.hold[0] == 0


def test_cosine_and_sine_are_right_to_the_last_digits():
    """For angles of a few turns, both ways; of no angle, exactly."""
    for angle in np.linspace(-20.0, 20.0, 4001):
        assert cos_sin(float(angle)) == pytest.approx((math.cos(angle), math.sin(angle)), abs=4e-15)
    assert cos_sin(0.0) == (1.0, 0.0)


@pytest.mark.slow
def test_free_steps_are_what_the_general_way_makes_of_them(monkeypatch):
    """The short way for steps in which nothing is met gives the same bits, and leaves the others alone."""
    rows = fidelity.read_rows(ROWS)
    short = replay(rows, plain=True)
    monkeypatch.setattr(rules, "play_freely", lambda *_: PUCK_HELD)
    general = replay(rows, plain=True)
    assert all(np.array_equal(short[name], general[name]) for name in short)
