"""Networks and schedules of the user's own: trained, resumed, loaded with consent, exported."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import rookery
from rookery import gate, user_code
from rookery.config import user_config
from rookery.errors import CheckpointError, ConfigError, OptionError, RunError, UsageError
from rookery.learners import registry
from rookery.learners.schedules import parse_schedule, scheduled
from rookery.training.export.onnx_file import export_onnx, export_standalone
from training.run import own_code

CODE = Path(own_code.__file__)
QUIET = {"panel": False, "plot": False, "tensorboard": False}
SHORT: dict[str, Any] = {
    "ppo": {"rollout_length": 32, "epochs": 1}, "dqn": {"start_steps": 32}, "sac": {"start_steps": 32},
    "td3": {"start_steps": 32},
}  # fmt: skip


class InParts(gym.ObservationWrapper):
    """CartPole whose observation is a dict."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        part = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gym.spaces.Dict(cart=part, pole=part)

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"cart": observation[:2], "pole": observation[2:]}


def train(folder: Path, learner: str, world: str | None = None, **options: Any) -> Any:
    world = world or ("Pendulum-v1" if learner in ("sac", "td3") else "CartPole-v1")
    keys: dict[str, Any] = {"num_envs": 2, "steps": 128, "evaluation": {"episodes": 1}, "monitor": QUIET}
    section = {**SHORT[learner], "hidden": [8], **options.pop("section", {})}
    return rookery.train(world, learner=learner, runs_dir=folder, **{learner: section}, **{**keys, **options})


@pytest.mark.slow
@pytest.mark.parametrize("learner", SHORT)
def test_an_encoder_of_ones_own(tmp_path: Path, learner: str) -> None:
    """It is part of the agent: trained, saved, resumed and loaded again, in every learner."""
    result = train(tmp_path, learner, section={"network": own_code.Features})
    config = json.loads((result.path / "config.json").read_text())
    assert config[learner]["network"] == f"{CODE.resolve()}:Features"
    first = rookery.load(result.path, best=False).policy.state_dict()
    assert "encoder.net.layers.0.weight" in first
    again = rookery.resume(result.path, steps=256)
    learned = rookery.load(result.path, best=False).policy.state_dict()["encoder.net.layers.0.weight"]
    assert not np.allclose(learned, first["encoder.net.layers.0.weight"])
    observations = np.zeros((2, *again.agent.observation_space.shape), np.float32)
    loaded = rookery.load(result.path, trust=True).act(observations, deterministic=True)
    np.testing.assert_array_equal(loaded, again.agent.act(observations, deterministic=True))


def test_a_whole_actor_and_critic(tmp_path: Path) -> None:
    """PPO's own nets are not built; the observation keeps its structure."""
    result = train(tmp_path, "ppo", section={"network": f"{CODE}:Both"}, wrappers=[InParts], backend="serial")
    names = set(result.agent.policy.state_dict())
    assert names == {f"encoder.net.net.{part}.{kind}" for part in ("policy", "value") for kind in ("weight", "bias")}


@pytest.mark.slow
def test_it_is_exported(tmp_path: Path) -> None:
    result = train(tmp_path, "ppo", section={"network": own_code.Unwritable})
    assert export_onnx(result.path, trust=True).is_file()
    with pytest.raises(OptionError, match="network has `softmax`, which cannot be written for NumPy alone: --onnx"):
        export_standalone(result.path)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("learner", "network", "options"),
    [
        ("ppo", own_code.Features, {"normalise_observations": True}),
        ("ppo", own_code.Residual, {"recurrent": 5}),
        ("ppo", own_code.Two, {"normalise_observations": True}),
        ("sac", own_code.Residual, {"activation": "tanh"}),
        ("dqn", own_code.Features, {}),
    ],
)
def test_networks_of_layers_are_written_for_numpy_alone(
    tmp_path: Path, learner: str, network: Any, options: dict[str, Any]
) -> None:
    """The export compares the file's actions with the agent's; here they are in this process."""
    agent = train(tmp_path, learner, section={"network": network, **options}).agent
    alone = rookery.standalone.from_agent(agent)
    seen = np.random.default_rng(3).normal(size=(32, *agent.observation_space.shape)).astype(np.float32)
    np.testing.assert_allclose(alone.act(seen), agent.act(seen, deterministic=True), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_file_is_written_with_the_network(tmp_path: Path) -> None:
    result = train(tmp_path, "ppo", section={"network": own_code.Residual, "normalise_observations": True})
    text = export_standalone(result.path).read_text()
    assert "layer_norm" in text and "import torch" not in text


def test_it_is_not_loaded_without_consent(tmp_path: Path) -> None:
    """An agent that names code is data until its user says otherwise."""
    code = tmp_path / "net.py"
    code.write_text(CODE.read_text())
    result = train(tmp_path, "ppo", section={"network": f"{code}:Features"})
    code.write_text(CODE.read_text() + "\nprint('other code')\n")
    module = gate.module_name(str(code))
    del sys.modules[module]
    gate._allowed.discard(("code", module))
    with pytest.raises(RunError, match=r"it would run code: .*net.py:Features .*: the file is not the one"):
        rookery.load(result.path)
    checkpoint = next((result.path / "checkpoints").iterdir())
    with pytest.raises((CheckpointError, OptionError), match="it would run code"):
        from rookery.training.storage.shipped_agents import agent_in

        agent_in(checkpoint)
    assert rookery.load(result.path, trust=True).act(np.zeros((1, 4), np.float32)).shape == (1,)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"network": f"{CODE}:Narrow"}, r"should return shape \(2, 13\) for a batch of 2, got \(2, 12\)"),
        ({"network": f"{CODE}:Unsized"}, "should have an integer `features_dim`, got None"),
        ({"network": f"{CODE}:no_network"}, "should be a class derived from torch.nn.Module"),
        ({"network": f"{CODE}:Features", "network_options": {"width": 3}}, "`network_options` are: features_dim"),
        ({"network": "nowhere.py:Net"}, "there is no file"),
        ({"network": "Net"}, "`ppo.network`"),
        ({"learning_rate_schedule": "cosine"}, "`ppo.learning_rate_schedule`"),
    ],
)
def test_what_is_refused(tmp_path: Path, section: dict[str, Any], words: str) -> None:
    with pytest.raises((OptionError, ConfigError), match=words):
        train(tmp_path, "ppo", section=section)
    assert not list(tmp_path.iterdir())


def test_only_ppo_takes_an_actor_and_critic(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="an actor and critic, which only ppo can use"):
        train(tmp_path, "dqn", section={"network": own_code.Both})


@pytest.mark.parametrize("schedule", [own_code.halved, "0.5 if progress > 0.4 else 1"])
def test_a_schedule_of_ones_own(tmp_path: Path, schedule: Any) -> None:
    """As a function or an expression; it holds in the resumed run too."""
    section = {"learning_rate": 1e-3, "learning_rate_schedule": schedule}
    result = train(tmp_path, "ppo", section=section)
    lines = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in lines if "learning_rate" in line][-1] == pytest.approx(5e-4)
    assert rookery.resume(result.path, steps=256).total_steps == 256


def test_wrappers_need_a_name() -> None:
    """No repr of a function, and no word of worlds: those may be lambdas, which is a way out."""
    with pytest.raises(ConfigError, match=r"^`wrappers`: a lambda has no name.*wrap the envs yourself: rookery\.train"):
        rookery.train("CartPole-v1", steps=64, wrappers=[lambda env: env])


# --- as Stable-Baselines3 writes it -----------------------------------------------------------------------------------


def recorded(result: Any, learner: str = "ppo") -> dict[str, Any]:
    return json.loads((result.path / "config.json").read_text())[learner]


@pytest.mark.slow
@pytest.mark.parametrize("learner", SHORT)
def test_an_extractor_with_normalised_observations(tmp_path: Path, learner: str) -> None:
    """`policy_kwargs` as there; statistics are part of the agent, and a resumed run has the same numbers."""
    kwargs = {"features_extractor_class": own_code.Features, "features_extractor_kwargs": {"features_dim": 6}}
    keys = {"policy_kwargs": kwargs, "norm_obs": True}
    whole = train(tmp_path / "whole", learner, steps=256, **keys)
    half = train(tmp_path / "half", learner, steps=128, **keys)
    assert recorded(half, learner)["network_options"] == {"features_dim": 6}
    resumed = rookery.resume(half.path, steps=256)
    one, other = (rookery.load(result.path, best=False).policy.state_dict() for result in (whole, resumed))
    assert one["encoder.norm.count"] > 100 and one["encoder.net.layers.0.weight"].shape[0] == 6
    assert all(np.array_equal(one[name], other[name]) for name in one)
    seen = np.full((2, *whole.agent.observation_space.shape), 0.5, np.float32)
    loaded = rookery.load(resumed.path).act(seen, deterministic=True)
    np.testing.assert_array_equal(loaded, resumed.agent.act(seen, deterministic=True))


def test_parts_of_an_observation_are_normalised_each(tmp_path: Path) -> None:
    section = {"network": own_code.Both, "normalise_observations": True}
    policy = train(tmp_path, "ppo", section=section, wrappers=[InParts], backend="serial").agent.policy
    cart, pole = (torch.full((1, 2), value) for value in (3.0, -2.0))
    joined = policy.encoder.norm(torch.tensor([[3.0, 3.0, -2.0, -2.0]]))
    seen = policy.encoder.normalised([cart, pole])
    torch.testing.assert_close(torch.cat(list(seen), 1), joined)
    assert not torch.allclose(joined, torch.tensor([[3.0, 3.0, -2.0, -2.0]]))


@pytest.mark.parametrize(
    ("learner", "arch", "hidden", "critic"),
    [
        ("ppo", {"pi": [8], "vf": [16, 4]}, [8], [16, 4]),
        ("ppo", [{"pi": [8], "vf": (16, 4)}], [8], [16, 4]),
        ("ppo", {"pi": [8, 8], "vf": [8, 8]}, [8, 8], None),
        ("ppo", {"pi": [8]}, [8], []),
        ("ppo", [8, 4], [8, 4], None),
        ("sac", {"pi": [8], "qf": [16, 4]}, [8], [16, 4]),
        ("td3", {"pi": [8], "qf": [16, 4]}, [8], [16, 4]),
    ],
)
def test_layers_of_actor_and_critic(learner: str, arch: Any, hidden: list[int], critic: list[int] | None) -> None:
    options = user_config("Pendulum-v1", learner=learner, policy_kwargs={"net_arch": arch}).learner_options
    assert (options.hidden, options.critic_hidden) == (hidden, critic)
    box = gym.spaces.Box(-1, 1, (3,))
    made = registry.make_learner(learner, box, box, options, 2)
    last = made.policy.critic.layer_params[:-1] if learner == "ppo" else made.critics.ensemble.biases[:-1]
    widths = [len(bias) for _, bias in last] if learner == "ppo" else [bias.shape[2] for bias in last]
    assert widths == (hidden if critic is None else critic)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"policy_kwargs": {"net_arch": [64, {"pi": [8], "vf": [8]}]}}, r"share no layers here: use dict\(pi="),
        ({"policy_kwargs": {"net_arch": {"pi": [8], "v": [8]}}}, "has the keys pi and vf, got 'v'"),
        ({"learner": "dqn", "policy_kwargs": {"net_arch": {"pi": [8], "vf": [4]}}}, r"use `dqn.hidden`, a list"),
        ({"learning_rate": lambda p: 0.0}, "should give a number > 0"),
        ({"learning_rate": lambda p: -p}, "finite numbers >= 0"),
        ({"learning_rate": lambda: 1e-3}, "should take the remaining progress, from 1 to 0"),
    ],
)
def test_what_is_refused_of_it(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        user_config("CartPole-v1", **{"learner": "ppo", **keys})


def linear(first: float) -> Any:
    def rate(remaining: float) -> float:
        return remaining * first

    return rate


RATES = [1e-3, 1e-4]
FIRST = 2e-3


@pytest.mark.parametrize(
    ("rate", "first", "schedule"),
    [
        (lambda p: p * 3e-4, 3e-4, "linear"),
        (lambda p: 3e-4, 3e-4, "constant"),
        (linear(0.01), 0.01, "linear"),
        (lambda p: FIRST * p**2, 2e-3, "(0.002 * (1.0 - progress) ** 2) / 0.002"),
        (lambda p: 1e-3 * (1 + math.cos(math.pi * p)) / 2, 1e-3, None),
        (own_code.falling, 1e-3, f"{CODE.resolve()}:falling(1.0 - progress) / 0.001"),
        ("lin_3e-4", 3e-4, "linear"),
    ],
)
def test_a_learning_rate_that_is_a_function(rate: Any, first: float, schedule: str | None) -> None:
    """Of the remaining progress, from 1 to 0: it is recorded as a number and a schedule."""
    options = user_config("CartPole-v1", learner="ppo", learning_rate=rate).ppo
    assert options.learning_rate == first
    assert schedule is None or options.learning_rate_schedule == schedule
    for done in (0.0, 0.3, 0.99, 1.0) if callable(rate) else ():
        now = scheduled(options.learning_rate, options.learning_rate_schedule, done)
        assert now == pytest.approx(rate(1.0 - done), rel=1e-9, abs=1e-12)


def test_several_lambdas_in_one_call_are_told_apart() -> None:
    options = user_config("CartPole-v1", learner="ppo", learning_rate=lambda p: p * 1e-3, clip_range=lambda p: 0.3 * p + 0.1).ppo  # fmt: skip # noqa: E501
    assert (options.learning_rate_schedule, options.clip) == ("linear", 0.4)
    assert options.clip * parse_schedule(options.clip_schedule)(1.0) == pytest.approx(0.1)


def test_a_function_that_cannot_be_stored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run says so; it is resumed exactly with the function, and refused without it."""
    rate = lambda p: RATES[int(p < 0.5)]  # noqa: E731
    whole = train(tmp_path / "whole", "ppo", steps=256, learning_rate=rate)
    assert "rookery.resume() needs it again" in caplog.text
    stopped = train(tmp_path / "half", "ppo", steps=256, learning_rate=rate, callbacks=[StopEarly()])
    name = recorded(stopped)["learning_rate_schedule"].partition("(")[0]
    user_code._of_session.pop(name)
    parse_schedule.cache_clear()
    with pytest.raises(UsageError, match="give a function again"):
        rookery.resume(stopped.path)
    resumed = rookery.resume(stopped.path, learning_rate=rate)
    one, other = (rookery.load(result.path, best=False).policy.state_dict() for result in (whole, resumed))
    assert all(np.array_equal(one[part], other[part]) for part in one)


class StopEarly(rookery.Callback):
    """Ends a run early, but not where it has been resumed."""

    def on_update(self, run: Any, metrics: Any) -> None:
        if run.step == 128:
            run.stop()


def test_a_class_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook: it is found again where it is defined again, and only if its code is the same."""
    lines = Path(own_code.__file__).read_text().partition("class Both")[0]
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(lines, "<cell>", "exec"), cell)
    result = train(tmp_path, "ppo", section={"network": cell["Features"]})
    name = recorded(result)["network"]
    assert name.startswith("object:Features-")
    user_code._of_session.pop(name)
    with pytest.raises(UsageError, match="Features was an object of another Python session: define a class again"):
        rookery.load(result.path)
    monkeypatch.setattr(sys.modules["__main__"], "Features", cell["Features"], raising=False)
    assert rookery.load(result.path).act(np.zeros((1, 4), np.float32)).shape == (1,)
    monkeypatch.setattr(sys.modules["__main__"], "Features", own_code.Unsized)
    with pytest.raises(UsageError, match="has other code"):
        rookery.load(result.path)


def test_a_run_says_what_kernels_do_not_compute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once; layers of different widths keep their kernels on a CPU."""
    train(tmp_path / "own", "ppo", section={"network": own_code.Features})
    assert caplog.text.count("PyTorch computes a network of your own") == 1
    caplog.clear()
    train(tmp_path / "unequal", "ppo", section={"hidden": [8], "critic_hidden": [16]})
    assert "PyTorch computes" not in caplog.text
