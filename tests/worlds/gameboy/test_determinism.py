"""The same seed and actions give the same game, to the last pixel: on every backend, and after a resume."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.training.storage import checkpoint
from rookery.worlds.gameboy.env import GameBoyEnv
from worlds.gameboy.cartridges import rom

GAME = "rookery/GameBoy-v0"
STEPS, ENVS = 50, 4
GAMES = {"pacer": "memory", "meadow": "pixels"}


@pytest.fixture(params=GAMES)
def game(request, pacer):
    """Keywords for envs of each game, with their screens drawn and episodes that end within the test. What is observed
    has nothing to do with the game: each has one kind."""
    return {
        **(pacer if request.param == "pacer" else {"profile": "meadow"}),
        "observation": GAMES[request.param],
        "render_mode": "rgb_array",
        "episode_length": 30,
    }


def actions_for(envs):
    return np.random.default_rng(5).integers(envs.single_action_space.n, size=(STEPS, ENVS))


def screens(envs):
    return [hashlib.sha256(screen).hexdigest() for screen in envs.get_attr("screen")]


def play(envs, actions):
    """Everything that a play shows."""
    frames = []
    for row in actions:
        observations, rewards, terminated, truncated, _ = envs.step(row)
        frames.append(
            (observations.tobytes(), rewards.tobytes(), terminated.tobytes(), truncated.tobytes(), screens(envs))
        )
    return frames


def make(game, backend="serial", **options):
    return rookery.make_vec(GAME, ENVS, backend=backend, env_kwargs=game, **options)


@pytest.mark.slow
def test_backends_agree(game):
    """In series, and in one and two worker processes: observations, rewards, ends and screens."""
    plays = []
    for backend, options in (("serial", {}), ("process", {"workers": 1}), ("process", {"workers": 2})):
        envs = make(game, backend, **options)
        first, _ = envs.reset(seed=11)
        plays.append([first.tobytes(), *play(envs, actions_for(envs))])
        envs.close()
    assert plays[0] == plays[1] == plays[2]


@pytest.mark.slow
@pytest.mark.parametrize("other_kind", [{}, {"observation": "both"}], ids=["", "both"])
def test_a_resumed_run_goes_on_exactly(game, other_kind, tmp_path):
    """Saved in mid-episode, through a file, into fresh envs of another backend."""
    game = {**game, **other_kind}
    envs = make(game)
    envs.reset(seed=11)
    actions = actions_for(envs)
    for row in actions[:20]:
        envs.step(row)
    checkpoint.save(tmp_path / "state", {"envs": envs.state_dict(portable=True)})
    expected = through(envs, actions[20:])
    for backend, options in (("serial", {}), ("process", {"workers": 2, "start_method": "fork"})):
        other = make(game, backend, **options)
        other.load_state_dict(checkpoint.load(tmp_path / "state")["envs"])
        assert through(other, actions[20:]) == expected
        other.close()
    envs.close()


def through(envs, actions):
    """Rewards, ends and screens of a play."""
    frames = []
    for row in actions:
        _, rewards, terminated, truncated, _ = envs.step(row)
        frames.append((rewards.tolist(), terminated.tolist(), truncated.tolist(), screens(envs)))
    return frames


@pytest.mark.slow
def test_a_save_state_holds_all_of_the_emulator(game):
    """A long play, saved and loaded again and again, ends in the same memory and screen as one left alone."""
    alone, moved = GameBoyEnv(**game), GameBoyEnv(**game)
    alone.reset(seed=3), moved.reset(seed=3)
    actions = np.random.default_rng(1).integers(alone.action_space.n, size=60)
    for k, action in enumerate(actions):
        alone.step(action), moved.step(action)
        if k % 7 == 0:
            state = moved.get_state()
            moved.reset(seed=k)
            moved.set_state(state)
    assert alone.values == moved.values
    assert (alone.screen == moved.screen).all()
    assert alone._emulator.save() == moved._emulator.save()
    alone.close(), moved.close()


def test_a_clock_in_the_cartridge_does_not_go_by_the_time_of_day(tmp_path, pacer, capfd):
    """It stands still, and a save state goes on the same a while later; PyBoy's line about it is not printed."""
    Path(pacer["rom"]).write_bytes(rom(cartridge=0x10, memory=3))
    alone, moved = GameBoyEnv(**pacer), GameBoyEnv(**pacer)
    for env in (alone, moved):
        env.reset(seed=1)
        env.step(2)
    state = moved.get_state()
    time.sleep(1.1)
    moved.set_state(state)
    assert (alone.step(2)[0] == moved.step(2)[0]).all()
    alone.close(), moved.close()
    assert capfd.readouterr() == ("", "")
    assert {path.suffix for path in tmp_path.iterdir()} == {".gb", ".toml"}


@pytest.mark.slow
def test_the_seed_draws_the_start():
    """Among several states; `start` in the options says which instead."""
    env = GameBoyEnv("meadow")
    count = len(env._starts)
    drawn = [env.reset(seed=seed)[0].tobytes() for seed in range(40)]
    assert drawn == [env.reset(seed=seed)[0].tobytes() for seed in range(40)]
    assert len(set(drawn)) > min(count, 8) / 2
    assert env.reset(options={"start": 0})[0].tobytes() == env.reset(options={"start": 0})[0].tobytes()
    with pytest.raises(rookery.errors.OptionError, match=f"from 0 to {count - 1}"):
        env.reset(options={"start": count})
    env.close()
