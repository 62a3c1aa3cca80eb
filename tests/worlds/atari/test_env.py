"""Atari games: the same frames as Gymnasium's wrappers give, whole games in the records, states that continue."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import rookery
from rookery.errors import MissingExtra, OptionError, StateError, WorldError
from rookery.learners.image_nets import ImageNet
from rookery.learners.plain_spaces import StackedBox
from rookery.learners.registry import make_policy, option_classes
from rookery.training.resolve.recipes import recipe_for
from rookery.training.resolve.world_choice import find, training_options
from rookery.worlds.atari import games

ale_py = pytest.importorskip("ale_py")
from rookery.worlds.atari.env import AtariEnv  # noqa: E402

LIVES = {"episodic_life": True, "clip_rewards": True, "fire_reset": True}


def play(env: gym.Env, steps: int, seed: int = 1) -> list[tuple[Any, ...]]:
    """Random actions of a seed."""
    random, results = np.random.default_rng(seed), []
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(int(random.integers(env.action_space.n)))
        results.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            results.append((env.reset()[0],))
    return results


def same(some: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(np.array_equal(a[0], b[0]) and a[1:] == b[1:] for a, b in pairs)


@pytest.mark.parametrize(
    ("world", "options", "preprocessing"),
    [
        ("ALE/Breakout-v5", {}, {}),
        ("BreakoutNoFrameskip-v4", {}, {}),
        ("BeamRiderNoFrameskip-v4", {}, {}),  # whose games do not all begin in one state
        ("ALE/Qbert-v5", {"obs_type": "rgb", "frame_skip": 2}, {"grayscale_obs": False, "frame_skip": 2}),
    ],
)
def test_the_same_as_gymnasium(world: str, options: dict[str, Any], preprocessing: dict[str, Any]) -> None:
    pytest.importorskip("cv2")
    gym.register_envs(ale_py)
    bare = gym.make(world, frameskip=1, disable_env_checker=True)
    theirs = gym.wrappers.FrameStackObservation(gym.wrappers.AtariPreprocessing(bare, **preprocessing), 4)
    ours = AtariEnv(world, **options)
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert np.array_equal(ours.reset(seed=7)[0], theirs.reset(seed=7)[0])
    assert same(play(ours, 200), play(theirs, 200))
    assert np.array_equal(ours.reset()[0], theirs.reset()[0])


def test_pictures_are_those_of_ale() -> None:
    """Without OpenCV: of one frame in its full size nothing is left to shrink."""
    env = AtariEnv("ALE/Seaquest-v5", frame_skip=1, screen_size=(210, 160), stack_size=1)
    env.reset(seed=1)
    for k in range(100):
        observation = env.step(k % 18)[0]
        assert np.array_equal(observation[0], env._ale.getScreenGrayscale())


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "workers"), [("serial", None), ("process", 1), ("process", 2)])
def test_the_same_frames_on_every_backend(backend: str, workers: int | None) -> None:
    envs = rookery.make_vec("ALE/Breakout-v5", 3, backend=backend, workers=workers, env_kwargs=LIVES)
    alone = [AtariEnv("ALE/Breakout-v5", **LIVES) for _ in range(3)]
    observations, _ = envs.reset(seed=5)
    for k, env in enumerate(alone):
        assert np.array_equal(observations[k], env.reset(seed=5 + k)[0])
    over = [False] * 3
    for step in range(60):
        actions = np.array([step % 4, 1, 3])
        observations, rewards, terminated, *_ = envs.step(actions)
        for k, env in enumerate(alone):
            if over[k]:
                assert np.array_equal(observations[k], env.reset()[0])
                over[k] = False
                continue
            observation, reward, over[k], _, _ = env.step(actions[k])
            assert np.array_equal(observations[k], observation) and rewards[k] == reward and terminated[k] == over[k]
    envs.close()


@pytest.mark.slow
def test_whole_games_are_recorded_with_full_scores() -> None:
    envs = rookery.make_vec("ALE/SpaceInvaders-v5", 2, backend="serial", env_kwargs=LIVES, autoreset_mode="SameStep")
    envs.reset(seed=1)
    random, ends, rewards, normalised = np.random.default_rng(0), 0, np.zeros(2), []
    records: list[Any] = []
    while not records:
        _, reward, terminated, _, infos = envs.step(random.integers(0, 6, 2))
        assert set(reward.tolist()) <= {-1.0, 0.0, 1.0}
        rewards += reward
        ends += terminated.sum()
        records = envs.finished_episodes().tolist()
        if records:
            normalised = infos["final_info"]["human_normalised"][infos["_final_info"]].tolist()
    env, score, length, _ = records[0]
    assert ends >= 3  # lives, of which only the last ends a game
    assert score % 5 == 0 and score > rewards[env] > 0 and length > 100
    assert normalised[0] == pytest.approx(games.human_normalised("space_invaders", score))
    assert envs.finished_episodes().tolist() == []
    envs.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [LIVES, {"obs_type": "ram"}])
def test_a_saved_state_continues_exactly(options: dict[str, Any]) -> None:
    saved, loaded = (AtariEnv("ALE/Breakout-v5", **options) for _ in range(2))
    saved.reset(seed=1)
    loaded.reset(seed=2)
    play(saved, 40)
    play(loaded, 25, seed=3)
    for trial in range(4):  # sticky actions: one in four differs, if the emulator's memory of the last one does
        state, loaded.np_random.bit_generator.state = saved.get_state(), saved.np_random.bit_generator.state
        loaded.set_state(state)
        assert same(play(saved, 60, seed=trial), play(loaded, 60, seed=trial))
    with pytest.raises(StateError, match="other options"):
        AtariEnv("ALE/Breakout-v5", stack_size=2).set_state(state)


@pytest.mark.slow
def test_engines_continue_from_portable_states() -> None:
    first, second = (rookery.make_vec("ALE/Pong-v5", 2, backend="serial", env_kwargs=LIVES) for _ in range(2))
    first.reset(seed=1)
    second.reset(seed=9)
    for _ in range(30):
        first.step(np.array([2, 3]))
    second.load_state_dict(first.state_dict(portable=True))
    for step in range(60):
        a, b = (envs.step(np.array([step % 6, 3])) for envs in (first, second))
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
    first.close()
    second.close()


def test_options_of_training_are_not_those_of_evaluations() -> None:
    world = find("ALE/Pong-v5", options={"clip_rewards": False})
    assert world.source == "rookery/Atari-v0" and world.name == "ALE-Pong-v5"
    assert training_options(world, {"clip_rewards": False}, 100, 1) == {**LIVES, "clip_rewards": False}


def test_a_life_begins_with_fire() -> None:
    """A policy that never fires would wait for ever."""
    env = AtariEnv("BreakoutNoFrameskip-v4", fire_reset=True)
    env.reset(seed=1)
    terminated, steps = False, 0
    while not terminated and steps < 1000:
        _, _, terminated, _, info = env.step(0)
        steps += 1
    assert terminated and info["lives"] == 0 and steps < 300


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("ALE/Pnog-v5", "ALE/Pong-v5"),
        ("ALE/Pong", "ALE/Pong-v5"),
        ("Pong-v4", "PongNoFrameskip-v4"),
        ("FooNoFrameskip-v4", "ALE/Pong-v5"),
    ],
)
def test_wrong_names(world: str, words: str) -> None:
    for name in (find, rookery.make_vec):
        with pytest.raises(WorldError, match=words):
            name(world)


@pytest.mark.few(1)
@pytest.mark.parametrize("world", ["ALE/Pong-v5", "BreakoutNoFrameskip-v4"])
@pytest.mark.parametrize("learner", ["ppo", "dqn", "pqn"])
def test_recipes_by_name(world: str, learner: str) -> None:
    """Each makes the classic network, with which it can act."""
    recipe = recipe_for(find(world).name, learner, kernel=False)
    options = option_classes()[learner](**recipe[learner])
    spaces = StackedBox.of(gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)), gym.spaces.Discrete(6)
    policy = make_policy(learner, *spaces, options)
    assert isinstance(policy.encoder.images["0"], ImageNet)
    seen = [torch.zeros(2, 4, 84, 84, dtype=torch.uint8)]
    assert policy.act(seen, None, None, torch.zeros(2, 0))[0].shape == (2,)
    assert recipe["steps"] == 10_000_000 and not recipe["evaluation"]["deterministic"]


def test_missing_package_and_rom(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(games, "find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match=r"rookery\[atari\]"):
            rookery.make_vec("ALE/Pong-v5", 2)
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(WorldError, match=r"pong\.bin"):
        AtariEnv("ALE/Pong-v5")


@pytest.mark.parametrize(
    "option",
    [
        {"obs_type": "grey"}, {"frame_skip": 0}, {"stack_size": 0}, {"screen_size": (0, 3)}, {"mode": 9},
        {"difficulty": 7},
    ],
)  # fmt: skip
def test_wrong_options(option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(option))):
        AtariEnv("ALE/Pong-v5", **option)


def test_every_game_of_ale_is_known() -> None:
    of_several_players = {"combat", "joust", "maze_craze", "warlords"}
    assert set(games.GAMES.values()) == set(ale_py.roms.get_all_rom_ids()) - of_several_players
    assert len(games.HUMAN_SCORES) == 57


PPO = {"learner": "ppo", "ppo": {"rollout_length": 16, "hidden": [8], "accelerate": False}}
DQN = {
    "learner": "dqn",
    "dqn": {"buffer_size": 60, "start_steps": 20, "batch_size": 8, "hidden": [8], "images": "flat", "target_every": 3},
}


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "options"), [(PPO, {"obs_type": "ram"}), (DQN, {"screen_size": 10})])
def test_a_resumed_run_is_the_run_that_was_never_interrupted(learner: Any, options: Any, tmp_path) -> None:
    """Also that of DQN, whose replay buffer stores each frame once."""
    small: dict[str, Any] = {
        "num_envs": 2, **learner, "backend": "serial",
        "world_options": {**options, "max_num_frames_per_episode": 400},
        "checkpoints": {"every": 64}, "evaluation": {"every": 10_000, "episodes": 1}, "verbose": False,
        "runs_dir": tmp_path,
    }  # fmt: skip
    whole = rookery.train("ALE/Breakout-v5", steps=128, name="whole", **small)
    rookery.train("ALE/Breakout-v5", steps=64, name="parts", **small)
    resumed = rookery.resume("parts", steps=128, runs_dir=tmp_path, verbose=False)
    weights = [run.agent.policy.state_dict() for run in (whole, resumed)]
    assert all(np.array_equal(value, weights[1][name]) for name, value in weights[0].items())
