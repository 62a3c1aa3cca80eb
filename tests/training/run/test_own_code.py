"""Networks and schedules of the user's own: trained, resumed, loaded with consent, exported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery import gate
from rookery.errors import CheckpointError, ConfigError, OptionError, RunError
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
    keys = {"num_envs": 2, "steps": 128, "evaluation": {"episodes": 1}, "monitor": QUIET, "runs_dir": folder}
    section = {**SHORT[learner], "hidden": [8], **options.pop("section", {})}
    return rookery.train(world, learner=learner, **keys, **{learner: section}, **options)


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
    result = train(tmp_path, "ppo", section={"network": own_code.Features})
    assert export_onnx(result.path, trust=True).is_file()
    with pytest.raises(OptionError, match="network of your own cannot be written for NumPy alone"):
        export_standalone(result.path)


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
        ({"network": f"{CODE}:Features", "normalise_observations": True}, "normalise inside your network"),
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


def test_code_without_a_name_is_refused_by_its_key() -> None:
    """No repr of a function, and no word of worlds: those may be lambdas, which is a way out."""
    with pytest.raises(ConfigError, match=r"^`wrappers`: a lambda has no name.*wrap the envs yourself: rookery\.train"):
        rookery.train("CartPole-v1", steps=64, wrappers=[lambda env: env])
    with pytest.raises(ConfigError, match=r"^`ppo\.learning_rate_schedule`: a lambda has no name") as raised:
        rookery.train("CartPole-v1", steps=64, ppo={"learning_rate_schedule": lambda done: 1 - done})
    assert "0x" not in str(raised.value) and "world" not in str(raised.value)
