"""The env: Gymnasium's contract, what is seen and told, and that nothing is left behind."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import psutil
import pytest
from gymnasium.utils.env_checker import check_env

import rookery
from rookery.errors import OptionError, SpaceError, StateError
from rookery.testing import check_world
from rookery.worlds.gameboy.env import GameBoyEnv
from worlds.gameboy.cartridges import rom

pytestmark = pytest.mark.usefixtures("short_checks")

NOTHING, LEFT, RIGHT, A, BOTH = range(5)
KINDS = ("memory", "pixels", "both")


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_gymnasium_finds_nothing_wrong(make, kind):
    """Its own checker, by every kind of observation."""
    check_env(make(observation=kind, render_mode="rgb_array"), skip_render_check=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_our_checker_finds_nothing_wrong(pacer, kind):
    """Determinism, pickling, and the state in mid-episode."""
    world = gym.spec("rookery/GameBoy-v0")
    report = check_world(lambda: gym.make(world, **pacer, observation=kind), steps=60)
    assert report.ok, str(report)


def test_buttons_reach_the_game(make):
    """What an action names is held for the whole step, alone or with others, and let go for the next."""
    env = make()
    env.reset(seed=1)
    for action, pad, keys in ((RIGHT, 1, 0), (LEFT, 2, 0), (A, 0, 1), (BOTH, 1, 1), (NOTHING, 0, 0)):
        before = env.values["x"]
        env.step(action)
        assert (env.values["pad"], env.values["keys"]) == (pad, keys)
        assert env.values["x"] - before == {1: 4, 2: -4}.get(pad, 0)


def test_buttons_can_be_let_go_within_a_step(pacer):
    """`hold` frames of it, for games that look for a new press."""
    path = Path(pacer["profile"])
    path.write_text(path.read_text().replace("frame_skip = 4", "frame_skip = 4\nhold = 1"))
    env = GameBoyEnv(**pacer)
    env.reset(seed=1)
    for k in range(1, 4):
        env.step(RIGHT)
        assert (env.values["x"], env.values["pad"]) == (k, 0)
    env.close()


def test_what_is_seen(make):
    """Values scaled, as one of several, as a difference, and of two bytes; all within the space."""
    env = make()
    first, info = env.reset(seed=1)
    assert info == {"x": 0, "room": 0}
    for _ in range(10):
        seen, _, _, _, info = env.step(RIGHT)
    values = env.values
    assert (values["x"], values["room"]) == (40, 1) == (info["x"], info["room"])
    expected = [40 / 255, 0, 1, 0, 0, 0, 0, 0, 0, (values["frames"] - 40) / 255, (40 + 256 * values["frames"]) / 65535]
    np.testing.assert_allclose(seen, expected, rtol=1e-6)
    assert seen.dtype == np.float32 and env.observation_space.contains(seen)
    assert first is not seen and first[0] == 0


def test_the_memory_observation_can_be_padded(pacer):
    """To a size that agents of another trainer expect."""
    path = Path(pacer["profile"])
    path.write_text(path.read_text().replace("[observation]", "[observation]\nsize = 128"))
    env = GameBoyEnv(**pacer)
    seen, _ = env.reset(seed=1)
    assert seen.shape == (128,) and not seen[11:].any()
    env.close()


def test_a_profile_of_pixels_alone(tmp_path, pacer):
    """A game of which no address is known."""
    path = Path(pacer["profile"])
    path.write_text('[game]\ntitle = "PACER"\n[actions]\nbuttons = ["a"]\n[observation]\nkind = "pixels"\n')
    env = GameBoyEnv(**pacer)
    seen, info = env.reset(seed=1)
    assert seen.shape == (1, 72, 80) and info == {}
    assert env.step(0)[1:] == (0.0, False, False, {})
    env.close()
    with pytest.raises(OptionError, match="lists no values for it"):
        GameBoyEnv(**pacer, observation="both")


def test_oracle_of_seasons_on_a_cartridge_in_its_name(tmp_path):
    """128 numbers, a structured state beside them, the rewards of older trainers, and its colours as greys."""
    (tmp_path / "mine.gbc").write_bytes(rom("ZELDA DIN", colour=0xC0))
    env = GameBoyEnv("oracle_of_seasons", rom=tmp_path / "mine.gbc", observation="both")
    seen, info = env.reset(seed=1)
    assert seen["memory"].shape == (128,) and seen["pixels"].shape == (3, 72, 80)
    assert set(info) == {
        "x",
        "y",
        "room",
        "dungeon_floor",
        "health",
        "max_health",
        "rupees",
        "enemies_killed",
        "essences",
    }
    assert env.step(0)[1:4] == (0.01, False, False)
    for name, address, value in (("rupees", 0xC6A5, 0x25), ("room", 0xC63B, 7), ("dungeon_floor", 0xC63D, 1)):
        env._emulator.memory[address] = value
        before = {"rupees": 0.001 * 25, "room": 10.0, "dungeon_floor": 25.0}[name]
        assert env.step(0)[1] == pytest.approx(0.01 + before)
    assert env.values["rupees"] == 25
    env.close()


def test_pixels_are_the_screen(make):
    """Every fourth pixel of it, the newest screen last in the stack."""
    env = make(observation="pixels", render_mode="rgb_array")
    first, _ = env.reset(seed=1)
    assert first.shape == (2, 36, 40) and (first[0] == first[1]).all()
    second, *_ = env.step(RIGHT)
    assert (second[0] == first[1]).all()
    picture = env.render()
    assert picture.shape == (144, 160, 3) and picture.dtype == np.uint8
    assert (second[1] == picture[::4, ::4, 0]).all()
    third, *_ = env.step(BOTH)
    assert len({int(frame.mean()) for frame in (*second, *third)}) > 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("[[reward]]", None, "has no reward"), ('"room == 4"', '"room == 0"', "every episode ends after one step")],
)
def test_what_makes_learning_pointless_is_said_once(pacer, caplog, old, new, words):
    """Neither is wrong, but nobody means it."""
    path = Path(pacer["profile"])
    text = path.read_text()
    start, rest = text.split("[[reward]]", 1)
    path.write_text(text.replace(old, new) if new else start + rest[rest.index("[episode]") :])
    with caplog.at_level("INFO", logger="rookery"):
        for _ in range(2):
            env = GameBoyEnv(**pacer)
            env.reset(seed=1)
            env.close()
    assert [words in record.message for record in caplog.records] == [True]


@pytest.mark.few(1)
@pytest.mark.parametrize(("shrink", "grey", "stack"), [(1, True, 1), (8, False, 4), (4, False, 1), (1, False, 2)])
def test_screens_of_all_sizes(pacer, shrink, grey, stack):
    """In colour the channels of one screen lie together, the newest screen last."""
    path = Path(pacer["profile"])
    wanted = f"shrink = {shrink}\ngrey = {str(grey).lower()}\nstack = {stack}"
    path.write_text(path.read_text().replace("shrink = 4\nstack = 2", wanted))
    Path(pacer["rom"]).write_bytes(rom(colour=0xC0))
    env = GameBoyEnv(**pacer, observation="pixels", render_mode="rgb_array")
    env.reset(seed=1)
    channels = 1 if grey else 3
    for _ in range(3):
        seen, *_ = env.step(RIGHT)
        assert seen.shape == env.observation_space.shape == (channels * stack, 144 // shrink, 160 // shrink)
        if not grey:
            assert (seen[-3:] == env.render()[::shrink, ::shrink].transpose(2, 0, 1)).all()
    env.close()


@pytest.mark.parametrize("frames", [1, 60])
def test_steps_of_all_lengths(pacer, frames):
    """Of a single frame, and of a second."""
    path = Path(pacer["profile"])
    path.write_text(path.read_text().replace("frame_skip = 4", f"frame_skip = {frames}"))
    env = GameBoyEnv(**pacer)
    env.reset(seed=1)
    env.step(RIGHT)
    assert (env.values["x"], env.metadata["render_fps"]) == (frames, 60 // frames)
    env.close()


def test_rewards_and_ends(make):
    """A walk to the end: paid by the pixel, by the room and once for the far one, and a success."""
    env = make()
    env.reset(seed=1)
    total, steps, over = 0.0, 0, False
    while not over:
        _, reward, terminated, truncated, info = env.step(RIGHT)
        assert ("is_success" in info) == (terminated or truncated)
        total, steps, over = total + reward, steps + 1, terminated or truncated
    assert (steps, terminated, truncated, info["is_success"]) == (32, True, False, True)
    assert total == 128 * 0.5 + 4 + 5


def test_an_episode_is_cut_off(make):
    """After the profile's length, or another that was requested."""
    for length, options in ((40, {}), (3, {"episode_length": 3})):
        env = make(**options)
        env.reset(seed=1)
        ends = [env.step(NOTHING)[2:4] for _ in range(length)]
        assert ends == [(False, False)] * (length - 1) + [(False, True)]


@pytest.mark.few(1)
@pytest.mark.parametrize("action", [5, -1, 1.5, "up", None, np.array([1, 2])])
def test_an_action_that_is_none(make, action):
    """It is rejected, not guessed at."""
    env = make()
    env.reset(seed=1)
    with pytest.raises(SpaceError, match="is not in Discrete"):
        env.step(action)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"observation": "screen"}, "one of memory, pixels, both"), ({"episode_length": 0}, "an integer >= 1"),
     ({"render_mode": "human"}, "'rgb_array' or None")],
)  # fmt: skip
def test_options_that_cannot_be(pacer, options, words):
    """The message says what can."""
    with pytest.raises(OptionError, match=words):
        GameBoyEnv(**pacer, **options)


def test_a_state_of_another_observation_is_refused(make):
    """Its screens are missing."""
    env, other = make(observation="memory"), make(observation="pixels")
    env.reset(seed=1)
    with pytest.raises(StateError, match="another observation"):
        other.set_state(env.get_state())


@pytest.mark.slow
def test_nothing_is_left_behind(tmp_path, pacer, capfd):
    """No thread, no open file, no file beside the ROM, no line on the terminal, and no memory."""
    rookery.make_vec("rookery/GameBoy-v0", 1, backend="serial", env_kwargs=pacer).close()
    gc.collect()  # what others left behind is not to be counted as this one's
    files, threads, handles = set(tmp_path.iterdir()), threading.active_count(), len(os.listdir("/proc/self/fd"))
    process = psutil.Process()
    for turn in range(12):
        if turn == 2:
            memory = process.memory_info().rss
        env = gym.make("rookery/GameBoy-v0", **pacer)
        env.reset(seed=1)
        env.step(RIGHT)
        env.close()
        del env
        gc.collect()
    assert process.memory_info().rss - memory < 4e6
    assert set(tmp_path.iterdir()) == files
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, handles)
    assert capfd.readouterr() == ("", "")


def test_closing_twice_does_no_harm(make):
    """As with any env; the others go on."""
    env, other = make(), make()
    other.reset(seed=1)
    env.close()
    env.close()
    assert other.observation_space.contains(other.step(0)[0])
