"""A curriculum on a device does what it does on a CPU. Here the device is the CPU: the GPU's code as plain Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import rookery
from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.settings import Settings, autoreset
from rookery.errors import OptionError
from rookery.learners.registry import PPOOptions, make_learner
from rookery.training.curriculum.curriculum import make_curriculum_env
from rookery.training.curriculum.device_draws import episode_draws
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.world_choice import world_of_object
from rookery.worlds.hockey.world import HockeyOne
from training.curriculum.test_vector_env import MIRROR, echo_config
from training.echoes.world import Echo

pytestmark = pytest.mark.usefixtures("all_allowed")

LENGTH = 8
SELF = {"who": "self", "deterministic": True}
MIXED = {
    "mixture": [{"options": {"level": 0.0}}, {"options": {"level": 2.0}, "weight": 2.0}],
    "shaping": {"done_by_other": {"start": 1.0, "final": 3.0, "hold": 5, "fall": 10}, "winner": 0.5},
}
PHASES = [
    {"episodes": 12, "opponents": [SELF, {"who": "none", "weight": 0.5}], **MIXED},
    {"until": {"win_rate": 0.01, "games": 5}, "opponents": [SELF], "options": {"level": 4.0}},
    {"opponents": ["none"], "shaping": {"done_by_other": 2.0}},
]


def make(folder, backend, world=Echo, num_envs=4, **keys):
    """A curriculum on the kernel backend or on a device, with a small PPO."""
    config = echo_config(folder, **keys)
    mine = world_of_object(world, config.world, {})
    if backend == "cuda":
        settings = Settings(num_envs, autoreset_mode=autoreset("SameStep"), copy=False)
        engine = CudaEngine(resolve(world), settings, device="cpu")
    else:
        engine = rookery.make_vec(world, num_envs, backend, 1, autoreset_mode="SameStep", copy=False)
    run = ResolvedRun(config, mine, mine, num_envs)
    run = run.with_spaces(engine.single_observation_space, engine.single_action_space)
    options = PPOOptions(hidden=[8], rollout_length=LENGTH, epochs=1, minibatches=1)
    spaces = run.seat.observation_space, run.seat.action_space
    learner = make_learner("ppo", *spaces, options, num_envs, 1, "cpu")
    return make_curriculum_env(run, engine, learner, Path(folder)), learner


def actions_of(rng, envs, size=1):
    return rng.uniform(-1, 1, (envs.num_envs, size)).astype(np.float32)


def rollout(envs, rng, size=1):
    """What a rollout returns, as arrays."""
    envs.before_rollout()
    seen = []
    for _ in range(LENGTH):
        step = envs.step(torch.from_numpy(actions_of(rng, envs, size)))
        seen.append([part.clone().numpy() for part in step[:4]])
    envs.after_rollout(LENGTH)
    return seen


def cpu_rollout(envs, rng, size=1):
    return [[np.array(part) for part in envs.step(actions_of(rng, envs, size))[:4]] for _ in range(LENGTH)]


def assert_same(mine, theirs):
    for my_step, their_step in zip(mine, theirs, strict=True):
        for a, b in zip(my_step, their_step, strict=True):
            assert np.allclose(a, b, atol=1e-5)


def test_draws_are_those_of_the_cpu():
    """Those of the generator that `Phases.plan_episode` makes for every env and episode."""
    draws = episode_draws(2**31 - 5, torch.arange(4), torch.arange(5)[:, None]).numpy()
    for env in range(4):
        for episode in range(5):
            generator = np.random.Generator(np.random.Philox(key=[2**31 - 5, env], counter=episode))
            assert np.array_equal(draws[:, episode, env], generator.random(4))


@pytest.mark.slow
def test_phases_opponents_mixtures_and_shaping_are_those_of_the_cpu(tmp_path):
    """The same actions, the same phases: the same observations, rewards and ends, step by step."""
    mine, _ = make(tmp_path / "device", "cuda", phases=PHASES)
    theirs, _ = make(tmp_path / "cpu", "kernel", phases=PHASES)
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    assert np.array_equal(mine.reset(seed=7)[0].numpy(), theirs.reset(seed=7)[0])
    for _ in range(14):
        assert_same(rollout(mine, rng), cpu_rollout(theirs, other))
        assert np.array_equal(mine.engine.parameters["level"], theirs.engine.parameters["level"])
        assert mine.phases.state() == theirs.phases.state() and mine.steps == theirs.steps
        if theirs.phases.over and not theirs.phases.last:
            assert np.array_equal(mine.begin_next_phase()[0].numpy(), theirs.begin_next_phase()[0])
    assert mine.phases.index == 2
    mine_met, their_met = (envs.opponents.league.state()["met"] for envs in (mine, theirs))
    assert mine_met["none"]["won"] == their_met["none"]["won"] > 0
    theirs.engine.close()


@pytest.mark.slow
def test_scripted_opponents_and_modes_are_those_of_the_cpu(tmp_path):
    """Hockey against weak and strong, in two modes: the parameters of every episode, and what comes of them."""
    opponents = ["weak", {"who": "strong", "weight": 2.0}]
    phases = [{"opponents": opponents, "mixture": [{"options": {"mode": "defense"}}, {}]}]
    keys = {"phases": phases, "reward_scale": 0.5}
    mine, _ = make(tmp_path / "device", "cuda", HockeyOne, 3, **keys)
    theirs, _ = make(tmp_path / "cpu", "kernel", HockeyOne, 3, **keys)
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    assert np.array_equal(mine.reset(seed=7)[0].numpy(), theirs.reset(seed=7)[0])
    seen = set()
    for _ in range(14):
        assert_same(rollout(mine, rng, 4), cpu_rollout(theirs, other, 4))
        for name in ("player_two", "mode", "time_limit"):
            values = mine.engine.parameters[name]
            assert np.array_equal(values, theirs.engine.parameters[name])
            seen |= {(name, value) for value in values.tolist()}
    assert {("player_two", 1), ("player_two", 2), ("mode", 0), ("mode", 2)} <= seen
    theirs.engine.close()


@pytest.mark.slow
def test_nothing_about_an_episode_changes_before_its_end(tmp_path):
    """The opponent and the options of a game stay, while the league and the copies of the agent change."""
    phases = [{"opponents": ["archive", "self", "random"], **MIXED}]
    envs, learner = make(tmp_path, "cuda", phases=phases, league={"every": 1, "baseline": 0.0, "size": 3})
    envs.reset(seed=7)
    met = set()
    for _ in range(24):
        envs.before_rollout()
        for _ in range(LENGTH):
            before, level = envs._facing.clone(), envs.engine.parameters["level"].copy()
            _, _, terminated, truncated, _ = envs.step(torch.zeros(4, 1))
            running = ~(terminated | truncated)
            assert torch.equal(envs._facing[running], before[running])
            assert np.array_equal(envs.engine.parameters["level"][running.numpy()], level[running.numpy()])
            met |= {envs.opponents.names[number] for number in (envs._facing // 2).tolist()}
        envs.after_rollout(LENGTH)
        learner.updates += 1
        assert envs.phases.current
        envs.opponents.league.enter(envs.steps, agent_tree(learner))
    kinds = {name.partition("@")[0].partition("-")[0] for name in met}
    assert kinds == {"self", "step", "random"} and len(met) > 8
    members = envs.opponents.league.archive.members
    assert sum(not member.retired for member in members) == 3
    assert any(member.record.games for member in members)


def agent_tree(learner):
    from rookery.learners.learner import module_state
    from rookery.learners.plain_spaces import to_tree

    agent = learner.agent
    return {
        "learner": "ppo",
        "options": learner.options.model_dump(mode="json"),
        "policy": module_state(learner.policy),
        "observation_space": to_tree(agent.observation_space),
        "action_space": to_tree(agent.action_space),
    }


def test_it_continues_from_its_state(tmp_path):
    """Copies of the agent, past agents, random actions and plans: the next rollouts are the same."""
    phases = [{"opponents": ["archive", "self", "random"], **MIXED}]
    keys = {"phases": phases, "league": {"every": 1, "baseline": 0.0}}
    whole, learner = make(tmp_path, "cuda", **keys)
    whole.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(4):
        rollout(whole, rng)
        whole.phases  # noqa: B018 - waits for the figures
        whole.opponents.league.enter(whole.steps, agent_tree(learner))
        learner.updates += 1
    state, engine = whole.curriculum_state(), whole.engine.state_dict()
    parts, learner = make(tmp_path, "cuda", **keys)
    learner.updates = 4
    parts.engine.reset(seed=1)
    parts.load_curriculum_state(state)
    parts.load_state_dict(engine)
    rng, other = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(4):
        assert_same(rollout(whole, rng), rollout(parts, other))
    assert whole.phases.state() == parts.phases.state()
    assert whole.opponents.league.state() == parts.opponents.league.state()


def test_the_league_chooses_as_on_the_cpu(tmp_path):
    """By the same random numbers, the same members and baselines."""
    phases = [{"opponents": ["archive"]}]
    league = {"every": 1, "baseline": 0.3, "baselines": ["random"], "hardness": 2.0}
    envs, learner = make(tmp_path, "cuda", phases=phases, league=league)
    opponents = envs.opponents
    draws = torch.rand(2, 200, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for members in range(4):
        opponents.prepare(0)
        codes = opponents.choose(*draws).tolist()
        for code, kind, which in zip(codes, *draws.tolist(), strict=True):
            wanted = opponents.league.choose_opponent(kind, which).name
            assert ("self" if code < 0 else opponents.names[code // 2]) == wanted
        opponents.league.enter(members, agent_tree(learner))
        opponents.league.add_games(f"step-{members}", 3 * members, 1, 2)


def test_opponents_in_files_are_refused(tmp_path):
    """They act in Python, for which the GPU would wait in every step."""
    with pytest.raises(OptionError, match=r"acts in Python.*backend=kernel"):
        make(tmp_path, "cuda", opponents=[MIRROR])
