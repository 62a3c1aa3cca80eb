"""Curriculum files of older trainers: they run as they are, and every mistake is told by the file's own names."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rookery.config import collect_config, read_config, resolve
from rookery.config.curriculum_agent import AGENT_FIELDS
from rookery.config.curriculum_json import from_json
from rookery.config.inputs import to_toml
from rookery.errors import ConfigError
from rookery.learners.registry import option_classes

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.json"))
INFOS = ("reward_closeness_to_puck", "reward_touch_puck", "reward_puck_direction")


def phase(**fields: Any) -> dict[str, Any]:
    return {"name": "one", "episodes": 40, "environment": {"mode": "NORMAL"}, **fields}


def file(*phases: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {"curriculum": {"phases": list(phases or [phase()])}, **sections}


def agent(kind: str, **hyperparameters: Any) -> dict[str, Any]:
    return {"type": kind, "hyperparameters": hyperparameters}


def first(content: dict[str, Any]) -> dict[str, Any]:
    """The first phase, as it is understood."""
    resolve(collect_config(content))
    return from_json(content)["phases"][0]


def opponents(**fields: Any) -> Any:
    return first(file(phase(opponent=fields)))["opponents"]


def refusal(content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        collect_config(content)
    return str(caught.value)


# --- what is understood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_shipped_files_are_understood(path: Path) -> None:
    """By name of file and as content; the run's length is that of its phases."""
    config = resolve(collect_config(path))
    assert config == resolve(collect_config(json.loads(path.read_text())))
    assert config.world == "hockey" and len(config.phases) >= 3
    assert all(phase.episodes and phase.name and phase.opponents for phase in config.phases)
    assert "steps" not in read_config(path)


def test_an_empty_shell_takes_the_defaults() -> None:
    """A name and a number of episodes are enough for a phase, and phases for a file."""
    assert from_json(file({"name": "one", "episodes": 40})) == {
        "world": "hockey",
        "phases": [{"name": "one", "episodes": 40, "options": {"mode": "normal", "keep_mode": True}}],
    }


@pytest.mark.parametrize(
    ("written", "mode"),
    [("NORMAL", "normal"), ("TRAIN_SHOOTING", "shooting"), ("shooting", "shooting"), ("Train_Defense", "defense")],
)
def test_modes_in_any_letters(written: str, mode: str) -> None:
    """With or without what they begin with."""
    options = first(file(phase(environment={"mode": written, "keep_mode": False})))["options"]
    assert options == {"mode": mode, "keep_mode": False}


@pytest.mark.parametrize(
    "mixture",
    [
        [{"mode": "NORMAL", "weight": 3}, {"mode": "TRAIN_DEFENSE"}, {"mode": "TRAIN_SHOOTING", "weight": 0}],
        {"NORMAL": 3.0, "defense": 1, "shooting": 0},
    ],
)
def test_mixtures_of_modes(mixture: Any) -> None:
    """As a list or by name; what weighs nothing is never played."""
    found = first(file(phase(environment={"mixture": mixture, "mode": None})))
    assert found["options"] == {"keep_mode": True}
    assert found["mixture"] == [
        {"options": {"mode": "normal"}, "weight": 3.0},
        {"options": {"mode": "defense"}, "weight": 1.0},
    ]


@pytest.mark.parametrize(("most", "limits"), [(500, (None, None)), (100, (100, 80)), (50, (50, 50))])
def test_the_shorter_time_limit_holds(most: int, limits: tuple[Any, Any]) -> None:
    """The mode's own is 250 steps, or 80 for practice."""
    content = file(phase(), phase(environment={"mode": "TRAIN_DEFENSE"}), training={"max_episode_steps": most})
    found = [part["options"].get("time_limit") for part in from_json(content)["phases"]]
    assert tuple(found) == limits


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ({"type": "none", "weight": 1.0}, [{"who": "none"}]),
        ({"type": "BASIC_WEAK", "checkpoint": None, "opponents": None}, [{"who": "weak"}]),
        ({"type": "basic_strong", "deterministic": True}, [{"who": "strong"}]),
        ({"type": "self_play"}, [{"who": "self", "deterministic": True}]),
        ({"type": "self_play", "checkpoint": None, "deterministic": False}, [{"who": "self", "deterministic": False}]),
        ({"type": "self_play", "checkpoint": "latest"}, [{"who": "latest", "deterministic": True}]),
        ({"type": "self_play", "checkpoint": "runs/a"}, [{"who": "runs/a", "deterministic": True}]),
        ({"type": "archive"}, [{"who": "archive", "deterministic": True}]),
    ],
)
def test_opponents(given: dict[str, Any], understood: Any) -> None:
    """Each type; fields that say nothing may stand there."""
    assert opponents(**given) == understood


def test_a_mixture_of_mixtures_shares_out_its_weight() -> None:
    """0.6 for a mixture of 1 : 3 is 0.15 and 0.45."""
    inner = {
        "type": "weighted_mixture",
        "weight": 0.6,
        "opponents": [{"type": "none"}, {"type": "archive", "weight": 3}],
    }
    found = opponents(type="weighted_mixture", opponents=[{"type": "basic_weak", "weight": 0.4}, inner])
    assert [one["who"] for one in found] == ["weak", "none", "archive"]
    assert [one["weight"] for one in found] == pytest.approx([0.4, 0.15, 0.45])


def test_an_archive_is_the_league() -> None:
    """Shares that are left out are none."""
    drawn = {"type": "archive", "distribution": {"pfsp": 0.5, "baseline": 0.5}}
    config = resolve(collect_config(file(phase(), phase(opponent=drawn), phase(opponent=drawn))))
    assert (config.league.pfsp, config.league.random, config.league.baseline) == (0.5, 0.0, 0.5)


def test_shaped_rewards() -> None:
    """Constant for N episodes, then along a line for K; in any letters, with or without underscores."""
    assert "shaping" not in first(file(phase(reward_shaping=None)))
    usual = first(file(phase(reward_shaping={})))["shaping"]
    lines = [(term["start"], term["final"], term["hold"], term["fall"]) for term in map(usual.get, INFOS)]
    assert lines == [(20.0, 1.5, 600, 400), (15.0, 1.0, 600, 400), (0.0, 2.0, 600, 400)]
    other = {"n": 5, "K": 6, "closeness_start": 1, "TouchFinal": 2.5, "DIRECTIONFINAL": 3, "direction_start": 4}
    found = first(file(phase(reward_shaping=other)))["shaping"]
    assert found["reward_closeness_to_puck"] == {"start": 1.0, "final": 1.5, "hold": 5, "fall": 6}
    assert (found["reward_touch_puck"]["final"], found["reward_puck_direction"]["final"]) == (2.5, 3.0)
    assert found["reward_puck_direction"]["start"] == 4.0


def test_the_buffer_is_cleared_unless_told() -> None:
    """As it was."""
    config = resolve(collect_config(file(phase(), phase(clear_buffer=False), phase(clear_buffer=True))))
    assert [part.clear_replay for part in config.phases] == [True, False, True]


def test_dddqn() -> None:
    """Dueling and double, with one-step returns, even replay and hard copies to the target net."""
    hyperparameters = {
        "hidden_dim": 64, "target_update_freq": 50, "eps": 0.9, "eps_min": 0.1, "eps_decay": 0.99, "buffer_size": 5000,
        "action_fineness": 3, "use_huber_loss": False, "discount": 0.95, "grad_clip": 1.0, "reward_clip": None,
    }  # fmt: skip
    config = resolve(
        collect_config(
            file(hyperparameters={"learning_rate": 1e-4, "batch_size": 32}, agent=agent("dddqn", **hyperparameters))
        )
    )
    dqn = config.dqn
    assert (config.learner, config.world_options) == ("dqn", {"action_fineness": 3})
    assert (dqn.dueling, dqn.double, dqn.n_step, dqn.prioritised) == (True, True, 1, False)
    assert (dqn.hidden, dqn.target_every, dqn.tau, dqn.loss, dqn.gamma) == ([64, 64], 50, 1.0, "squared", 0.95)
    assert (dqn.epsilon_start, dqn.epsilon_end, dqn.epsilon_decay) == (0.9, 0.1, 0.99)
    assert (dqn.learning_rate, dqn.batch_size, dqn.buffer_size, dqn.max_grad_norm) == (1e-4, 32, 5000, 1.0)


def test_prioritised_replay_by_either_name() -> None:
    """DDQN_PER has it unless told, DDDQN if told."""
    per = {"per_alpha": 0.7, "per_beta": 0.5, "per_beta_frames": 99, "per_eps": 1e-3}
    for content in (agent("DDQN_PER", **per), agent("DDDQN", use_per=True, **per)):
        dqn = resolve(collect_config(file(agent=content))).dqn
        assert (dqn.prioritised, dqn.priority_exponent, dqn.importance_exponent) == (True, 0.7, 0.5)
        assert (dqn.importance_steps, dqn.priority_floor) == (99, 1e-3)
    assert not resolve(collect_config(file(agent=agent("DDQN_PER", use_per=False)))).dqn.prioritised
    grown = agent("DDQN_PER", per_beta_increment=0.001, per_beta=0.4, per_max_beta=1.0)
    assert resolve(collect_config(file(agent=grown))).dqn.importance_steps == 600


def test_chance_never_grows() -> None:
    """A first share below the usual last one stays; without a decay it stays too."""
    low = resolve(collect_config(file(agent=agent("DDDQN", eps=0.01)))).dqn
    assert (low.epsilon_start, low.epsilon_end) == (0.01, 0.01)
    assert resolve(collect_config(file(agent=agent("DDDQN", eps=0.3, eps_decay=None)))).dqn.epsilon_decay == 1.0


@pytest.mark.parametrize(
    ("hyperparameters", "temperature", "start"),
    [
        ({}, "auto", 1.0),
        ({"alpha": 0.3}, 0.3, 1.0),
        ({"alpha": 0.3, "learn_alpha": False}, 0.3, 1.0),
        ({"alpha": 0.3, "learn_alpha": True}, "auto", 0.3),
        ({"learn_alpha": False}, 0.2, 1.0),
    ],
)
def test_sac(hyperparameters: dict[str, Any], temperature: Any, start: float) -> None:
    """A fixed temperature, or one that is learned from where it is told to begin."""
    more = {"discount": 0.98, "tau": 0.01, "noise": "pink", "max_episode_steps": 250, "hidden_dim": [32, 16]}
    config = resolve(collect_config(file(agent=agent("SAC", **more, **hyperparameters))))
    sac = config.sac
    assert (config.learner, sac.temperature, sac.temperature_start) == ("sac", temperature, start)
    assert (sac.gamma, sac.tau, sac.noise, sac.hidden) == (0.98, 0.01, "pink", [32, 16])
    assert resolve(collect_config(file(agent=agent("sac", noise="NORMAL")))).sac.noise == "gaussian"


def test_training() -> None:
    """Updates are counted by rounds, as those trainers did."""
    training = {"updates_per_step": 2, "warmup_steps": 400, "reward_scale": 0.1, "checkpoint_save_freq": 100}
    config = resolve(collect_config(file(training=training | {"eval_frequency": 50}, agent=agent("DDDQN"))))
    assert (config.dqn.updates_per_step, config.dqn.updates_each, config.dqn.start_steps) == (2.0, "round", 400)
    assert (config.reward_scale, config.checkpoints.every_episodes) == (0.1, 100)
    assert (config.evaluation.every_episodes, config.evaluation.every) == (50, None)


def test_large_distances_are_steps() -> None:
    """Nobody evaluates every 100,000 episodes."""
    config = resolve(collect_config(file(training={"checkpoint_frequency": 100_000, "eval_frequency": 100_000})))
    assert (config.checkpoints.every, config.checkpoints.every_episodes) == (100_000, None)
    assert (config.evaluation.every, config.evaluation.every_episodes) == (100_000, None)


def test_without_an_agent_whoever_learns_is_told() -> None:
    """Its choice is left to rookery, or to who asks for one."""
    content = file(hyperparameters={"learning_rate": 1e-3, "batch_size": 32}, training={"updates_per_step": 1})
    config = resolve(collect_config(content, learner="sac"))
    assert (config.sac.learning_rate, config.dqn.learning_rate, config.ppo.learning_rate) == (1e-3, 1e-3, 1e-3)
    assert (config.sac.batch_size, config.dqn.batch_size, config.sac.updates_each) == (32, 32, "round")


def test_keys_of_today_may_stand_beside() -> None:
    """By new or older names; flags and keywords win over the file unchanged."""
    content = file(seed=3, eval_weak_opponent=True, checkpoints={"keep": 2}, training={"checkpoint_save_freq": 7})
    config = resolve(collect_config(content, ["phases=[]"], num_envs=4))
    assert (config.seed, config.num_envs, config.phases) == (3, 4, [])
    assert (config.checkpoints.keep, config.checkpoints.every_episodes) == (2, 7)
    assert config.evaluation.opponents == ["weak"]


# --- what is rejected ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (file(agent=agent("TDMPC2")), ["`agent.type` = 'TDMPC2'", "DDDQN, DDQN_PER, SAC, TD3, REDQTD3"]),
        (file(agent=agent("TD3", max_action=2.0)), ["`agent.hyperparameters.max_action`"]),
        (file(agent=agent("REDQTD3", utd_ratio=0)), ["`agent.hyperparameters.utd_ratio` should be a number above 0"]),
        (file(agent=agent("REDQTD3", polyak=2.0)), ["`agent.hyperparameters.polyak` should be a number from 0"]),
        (file(agent=agent("REDQTD3", q_target_mode="rem")), ["`agent.hyperparameters.q_target_mode`", '"min"']),
        (file(agent={"hyperparameters": {}}), ["agent: `type` is missing"]),
        (file(agent=agent("SAC", eps=0.1)), ["agent.hyperparameters: unknown key `eps`"]),
        (file(agent=agent("DDDQN", target_update_frq=3)), ["`target_update_frq`; did you mean `target_update_freq`?"]),
        (file(agent=agent("DDDQN", eps_decay=2)), ["`agent.hyperparameters.eps_decay`", "<= 1, got 2"]),
        (file(agent=agent("DDDQN", hidden_dim="x")), ["hidden_dim` should be an integer >= 1, or a list"]),
        (file(agent=agent("DDDQN", reward_clip=1.0)), ["`agent.hyperparameters.reward_clip`", "no such option"]),
        (file(agent=agent("DDDQN", action_fineness=1)), ["action_fineness` should be an integer >= 2, got 1"]),
        (file(agent=agent("SAC", noise="white")), ["noise` should be", '"normal"', '"pink"', "got 'white'"]),
        (file(agent=agent("SAC", discount=0.9, gamma=0.8)), ["gamma` = 0.8", "discount` = 0.9", "two names"]),
        (file(agent={"type": "SAC", "checkpoint_path": "a.pt"}), ["checkpoint_path", "cannot be loaded"]),
        (file(agent=3), ["`agent` should be a table", "got 3"]),
        (file(hyperparameters={"learningrate": 1}), ["hyperparameters: unknown key", "did you mean `learning_rate`?"]),
        (
            file(training={"updates_per_step": 0}),
            ["`training.updates_per_step` should be a number > 0 and <= 10000, got 0"],
        ),
        (file(training={"train_freq": 1}), ["training: unknown key `train_freq`"]),
        (file(trainng={}), ["unknown key `trainng`; did you mean `training`?"]),
        (file(xyzzy=1), ["unknown key `xyzzy`", "curriculum, hyperparameters, training, agent"]),
        (file(phases=[]), ["`phases` cannot be combined with `curriculum`"]),
        ({"curriculum": {}}, ["`curriculum.phases` should be a list of phases"]),
        ({"curriculum": []}, ["`curriculum` should be a table"]),
        ({"curriculum": {"phases": [3], "name": "x"}}, ["curriculum: unknown key `name`", "`curriculum.phases[0]`"]),
        (file({"name": "a"}), ['curriculum.phases[0] ("a"): `episodes` is missing']),
        (file(phase(), phase(episods=3)), ['phases[1] ("one"): unknown key `episods`; did you mean `episodes`?']),
        (file(phase(episodes=0)), ["`curriculum.phases[0].episodes` should be an integer >= 1, got 0"]),
        (
            file(phase(environment={"mode": "OTHER"})),
            ["phases[0].environment.mode` should be", '"shooting"', "'OTHER'"],
        ),
        (file(phase(environment={"modus": "x"})), ["phases[0].environment: unknown key `modus`"]),
        (file(phase(environment={"mode": "normal", "mixture": {"normal": 1}})), ["`mode` or `mixture`, not both"]),
        (file(phase(environment={"mixture": {"normal": 0}})), ["mixture`: at least one weight should be > 0"]),
        (file(phase(environment={"mixture": [{"mode": "x", "weight": -1}]})), ["mixture[0].mode`", "[0].weight`"]),
        (file(phase(environment={"keep_mode": "yes"})), ["keep_mode` should be true or false, got 'yes'"]),
        (file(phase(opponent={"type": "human"})), ["opponent.type` should be", '"self_play"', "got 'human'"]),
        (file(phase(opponent={"kind": "none"})), ["opponent: unknown key `kind`"]),
        (file(phase(opponent="none")), ["opponent` should be a table with the keys type"]),
        (
            file(phase(opponent={"type": "basic_weak", "checkpoint": "x"})),
            ["`checkpoint` belongs to the type self_play"],
        ),
        (
            file(phase(opponent={"type": "self_play", "checkpoint": 3})),
            ['checkpoint` should be null, "latest" or a path'],
        ),
        (file(phase(opponent={"type": "weighted_mixture"})), ["opponents` should be a list of opponents"]),
        (
            file(phase(opponent={"type": "weighted_mixture", "opponents": [{"type": "non", "weight": "x"}]})),
            ["opponents[0].type`", "opponents[0].weight` should be a number >= 0, got 'x'"],
        ),
        (
            file(phase(opponent={"type": "archive", "distribution": {"skill": 1}})),
            ["distribution: unknown key `skill`"],
        ),
        (file(phase(opponent={"type": "archive", "distribution": {}})), ["at least one share should be > 0"]),
        (
            file(*[phase(opponent={"type": "archive", "distribution": {"pfsp": x}}) for x in (0.5, 0.6)]),
            ["phases[1].opponent.distribution` differs", "one league"],
        ),
        (file(phase(reward_shaping={"M": 3})), ["reward_shaping: unknown key `M`", "N, K, CLOSENESS_START"]),
        (file(phase(reward_shaping={"N": -1})), ["reward_shaping.N` should be an integer >= 0, got -1"]),
        (file(phase(reward_shaping=3)), ["reward_shaping` should be a table"]),
        (file(phase(clear_buffer=1)), ["clear_buffer` should be true or false, got 1"]),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[0][:40],
)
def test_mistakes(content: dict[str, Any], parts: list[str]) -> None:
    """By name, with what is known there."""
    message = refusal(content)
    for part in parts:
        assert part in message


def test_the_file_is_named_and_all_mistakes_are_told(tmp_path: Path) -> None:
    """At once, as for other files."""
    path = tmp_path / "old.json"
    path.write_text(json.dumps(file(phase(episods=1), training={"warmup": 3}, agent={"hyperparameters": {}})))
    lines = refusal(path).splitlines()
    assert lines[0] == f"{path}: 3 problems"
    assert len(lines) == 4


# --- as TOML ------------------------------------------------------------------------------------------------------


def test_as_toml_it_is_the_same() -> None:
    """For everything at once that such a file can say."""
    shaped = phase(
        reward_shaping={"N": 7, "K": 9, "direction_start": 1},
        environment={"mixture": {"normal": 1, "shooting": 2}, "keep_mode": False},
        opponent={
            "type": "weighted_mixture",
            "opponents": [
                {"type": "self_play", "checkpoint": "latest", "weight": 2},
                {"type": "self_play", "checkpoint": "some.py:Agent", "deterministic": False},
                {"type": "archive", "distribution": {"pfsp": 1}, "weight": 0.5},
            ],
        },
        clear_buffer=False,
    )
    training = {"max_episode_steps": 90, "updates_per_step": 3, "warmup_steps": 5, "reward_scale": 2.0}
    training |= {"checkpoint_frequency": 20_000, "eval_frequency": 30}
    dqn = agent("DDDQN", hidden_dim=[8], tau=0.1, target_update_freq=3, eps=0.5, use_huber_loss=False, n_step=2)
    dqn["hyperparameters"] |= {"action_fineness": 3, "per_alpha": 0.3, "per_eps": 0.1, "grad_clip": None}
    sac = agent("SAC", alpha=0.5, noise="pink", memory_size=900, gamma=0.9)
    for learner in (dqn, sac, agent("DDQN_PER", tau=0.2), agent("SAC", alpha=0.1, learn_alpha=True), None):
        content = file(phase(), shaped, training=training, hyperparameters={"batch_size": 9}, agent=learner, seed=4)
        given = collect_config(content)
        for short in (False, True):
            assert resolve(collect_config(tomllib.loads(to_toml(given, short)))) == resolve(given)


def test_every_old_name_is_for_an_option_that_exists() -> None:
    """The tables of names agree with the learners' options."""
    for learner, names in AGENT_FIELDS.items():
        assert set(names.values()) <= set(option_classes()[learner].model_fields)


def test_td3_and_redq() -> None:
    """By the names of their files. REDQ's ratio multiplies the updates of `training`, and an agent's own value of what
    `hyperparameters` has too goes before."""
    own = {"expl_noise": 0.1, "policy_freq": 3, "priority_replay": True, "normalize_obs": True, "max_action": 1.0}
    assert from_json(file(phase(), agent=agent("TD3", **own)))["td3"] == {
        "exploration_noise": 0.1,
        "policy_delay": 3,
        "prioritised": True,
        "normalise_observations": True,
    }
    own = {"polyak": 0.995, "utd_ratio": 10, "num_Q": 5, "num_min": 2, "q_target_mode": "ave", "latent_dim": 64}
    content = file(
        phase(),
        agent=agent("REDQTD3", policy_update_delay=20, batch_size=256, **own),
        training={"updates_per_step": 2},
        hyperparameters={"batch_size": 1024},
    )
    found = from_json(content)
    assert found["learner"] == "td3" and found["td3"] == {
        "redq": True,
        "batch_size": 256,
        "tau": 0.005,
        "num_critics": 5,
        "min_critics": 2,
        "target_mode": "mean",
        "hidden": [64, 64],
        "policy_delay": 20,
        "updates_per_step": 20.0,
        "updates_each": "round",
    }
    config = resolve(found)
    assert (config.td3.num_critics, config.td3.target_every) == (5, 1)
    assert from_json(file(phase(), agent=agent("REDQTD3")))["td3"] == {"redq": True, "updates_per_step": 20.0}
