"""`rookery export --sb3`: a trained agent as a model that Stable-Baselines3 loads."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import MissingExtra, OptionError, RunError
from rookery.learners.agent import Agent
from rookery.learners.normalize import CLIP, RunningNorm
from rookery.training.evaluation.trained_run import AgentOrRun, open_agent
from rookery.training.export.agent_card import (
    PolicyModule,
    checked_path,
    confirm_overwrite,
    outputs_match,
    perturbed,
    written,
)

ACTIVATIONS = {"tanh": "Tanh", "relu": "ReLU", "elu": "ELU", "gelu": "GELU", "silu": "SiLU"}
ROWS = 64
Layers = Sequence[tuple[Tensor, Tensor]]


class SpacesOnly(gym.Env):
    """What SB3 needs of an env to make a model: its spaces. It cannot be stepped."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def export_sb3(
    run: AgentOrRun,
    runs_dir: str | Path = "runs",
    out: str | Path | None = None,
    best: bool = True,
    overwrite: bool = False,
    trust: bool = False,
) -> list[Path]:
    """Write the agent of a run as the zip file of an SB3 model (`sb3_model.zip` in the run's folder), for
    `stable_baselines3.PPO.load(path)`, or SAC, DQN or TD3.

    If the agent normalises observations, SB3's VecNormalize with its statistics is written beside it, as SB3 does it.
    The model's actions are compared with the agent's before anything is written. Returns the files.
    """
    trained = open_agent(run, runs_dir, best, trust)
    usual = trained.run.outputs / "sb3_model.zip"
    path = checked_path(out or usual, "a model of Stable-Baselines3 is a zip file", ".zip", overwrite)
    statistics = path.with_name(f"{path.stem}_vecnormalize.pkl")
    agent, norm = trained.agent, cast("RunningNorm | None", trained.agent.policy.encoder.norm)
    model = sb3_model(agent)
    check_actions(agent, model)
    if norm is not None:
        confirm_overwrite(statistics, overwrite)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.zip")
        files = [written(path, (Path(folder) / "model.zip").read_bytes())]
        if norm is not None:
            _vecnormalize(agent, norm).save(str(Path(folder) / "statistics.pkl"))
            files.append(written(statistics, (Path(folder) / "statistics.pkl").read_bytes()))
    return files


def sb3_model(agent: Agent) -> Any:
    """A model of Stable-Baselines3 with the weights of an agent; it sees normalised observations.

    Raises:
        OptionError: Stable-Baselines3 has no such policy.
    """
    try:
        import stable_baselines3
    except ImportError as error:
        raise MissingExtra(f"--sb3 needs Stable-Baselines3 ({error}): pip install 'rookery[sb3]'") from None
    _refuse_others(agent)
    learner = type(agent.policy.options).__name__.removesuffix("Options")
    layers = _actor_layers(agent.policy, learner)
    hidden: Any = [len(bias) for _, bias in layers[:-1]]
    if (critic := getattr(agent.policy.options, "critic_hidden", None)) is not None:
        hidden = {"pi": hidden, "vf" if learner == "PPO" else "qf": critic}
    activation = getattr(torch.nn, ACTIVATIONS[agent.policy.options.activation])
    replay = {} if learner == "PPO" else {"buffer_size": 1}
    model = getattr(stable_baselines3, learner)(
        "MlpPolicy",
        SpacesOnly(agent.observation_space, agent.action_space),
        policy_kwargs={"net_arch": hidden, "activation_fn": activation},
        gamma=agent.policy.options.gamma,
        device="cpu",
        **replay,
    )
    state = model.policy.state_dict()
    for name, part in _named(agent.policy, learner, layers).items():
        if state[name].shape != part.shape:
            raise RunError(
                f"the SB3 model is not written: {name} would be {tuple(part.shape)}, not {state[name].shape}"
            )
        state[name] = part.detach().clone()
    model.policy.load_state_dict(state)
    return model


def _refuse_others(agent: Agent) -> None:
    policy = agent.policy
    if getattr(getattr(policy, "net", None), "layer_norm", False):
        raise OptionError("an agent of PQN cannot be a model of Stable-Baselines3, which has no layer normalisation")
    if policy.memory_size:
        raise OptionError("a recurrent agent cannot be a model of Stable-Baselines3, which has no recurrent policies")
    if getattr(policy.options, "share_weights", False):
        raise OptionError(
            "an agent whose weights assets share cannot be a model of Stable-Baselines3, which has no such policies"
        )
    if policy.options.network:
        raise OptionError("an agent with a network of your own cannot be a model of Stable-Baselines3")
    if len(policy.leaves) != 1 or policy.leaves[0].kind == "image" or any(policy.leaves[0].starts):
        raise OptionError("for --sb3 an observation should be one vector, or discrete numbers that start at 0")
    flat = spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box
    bounded = not isinstance(agent.action_space, spaces.Box) or agent.action_space.is_bounded()
    if not isinstance(agent.action_space, flat) or not bounded or np.any(getattr(agent.action_space, "start", 0)):
        raise OptionError(f"Stable-Baselines3 cannot act in {agent.action_space}")


def _actor_layers(policy: Any, learner: str) -> Layers:
    if learner == "DQN":
        return policy.net.as_perceptron()  # SB3 has no dueling networks: both heads become one layer
    return policy.actor.layer_params if learner == "PPO" else policy.net.layer_params


def _named(policy: Any, learner: str, layers: Layers) -> dict[str, Tensor]:
    """The weights by SB3's names."""
    *hidden, last = layers
    if learner == "PPO":
        own = {"log_std": policy.head.log_std} if hasattr(policy.head, "log_std") else {}
        *inner, value = policy.critic.layer_params
        actor = _sequence("mlp_extractor.policy_net.", hidden) | _layer("action_net.", last)
        return own | actor | _sequence("mlp_extractor.value_net.", inner) | _layer("value_net.", value)
    if learner == "SAC":
        mean, log_std = ((weight, bias) for weight, bias in zip(last[0].chunk(2), last[1].chunk(2), strict=True))
        return _sequence("actor.latent_pi.", hidden) | _layer("actor.mu.", mean) | _layer("actor.log_std.", log_std)
    prefixes = ("q_net.q_net.", "q_net_target.q_net.") if learner == "DQN" else ("actor.mu.", "actor_target.mu.")
    return _sequence(prefixes[0], layers) | _sequence(prefixes[1], layers)


def _sequence(prefix: str, layers: Layers) -> dict[str, Tensor]:
    """In an `nn.Sequential`, activations are between the layers."""
    return {name: part for k, pair in enumerate(layers) for name, part in _layer(f"{prefix}{2 * k}.", pair).items()}


def _layer(prefix: str, pair: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}weight": pair[0], f"{prefix}bias": pair[1]}


def check_actions(agent: Agent, model: Any) -> None:
    """Raise if the model's deterministic actions differ from the agent's."""
    module = PolicyModule(agent, has_mask=False)
    (seen,) = module.example_inputs(ROWS)
    with torch.no_grad():
        (expected,), (rounded,) = module(seen), perturbed(module)(seen)
    norm = cast("RunningNorm | None", agent.policy.encoder.norm)
    given = seen if norm is None else norm(seen.flatten(1).float()).view(seen.shape)
    actions, _ = model.predict(given.numpy(), deterministic=True)
    if not outputs_match(expected.numpy(), rounded.numpy(), actions.astype(expected.numpy().dtype)):
        raise RunError("the SB3 model is not written: its actions differ from the agent's own")


def _vecnormalize(agent: Agent, norm: RunningNorm) -> Any:
    """SB3's normaliser with the statistics of the agent's."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = SpacesOnly(agent.observation_space, agent.action_space)
    normaliser = VecNormalize(DummyVecEnv([lambda: env]), training=False, norm_reward=False, clip_obs=CLIP)
    shape = agent.observation_space.shape
    normaliser.obs_rms.mean = norm.mean.cpu().numpy().reshape(shape)
    normaliser.obs_rms.var = norm.variance.cpu().numpy().reshape(shape)
    normaliser.obs_rms.count = float(norm.count)
    normaliser.epsilon = norm.floor
    return normaliser
