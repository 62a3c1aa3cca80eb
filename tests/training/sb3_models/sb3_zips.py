"""Models of Stable-Baselines3 as zip files, and such as nobody honest writes."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
from gymnasium import spaces


class Blank(gym.Env):
    """An env that has spaces, and does nothing."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any):
        return self.observation_space.sample(), 0.0, False, False, {}


def save_model(path: Path, algorithm: str, observed: spaces.Space, acted: spaces.Space, policy="MlpPolicy", **kwargs):
    """A model with random weights and biases, saved; returns it."""
    own = {} if algorithm in ("PPO", "A2C") else {"buffer_size": 10}
    env = Blank(observed, acted)
    model = getattr(stable_baselines3, algorithm)(
        policy, env, seed=1, device="cpu", policy_kwargs=kwargs or None, **own
    )
    rng = np.random.default_rng(0)
    for part in model.policy.parameters():  # SB3 begins with biases of 0 and small last layers
        part.data.add_(
            part.new_tensor(rng.normal(0, 0.5 / np.sqrt(np.prod(part.shape[1:])) if part.ndim > 1 else 0.1, part.shape))
        )
    model.save(path)
    return model


def changed(source: Path, target: Path, **members: bytes | Callable[[bytes], bytes]) -> Path:
    """A copy of a zip file with other contents of some members (data, policy)."""
    names = {"data": "data", "policy": "policy.pth", "variables": "pytorch_variables.pth"}
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            change = next((members[key] for key in members if names[key] == name), None)
            contents = old.read(name)
            new.writestr(name, change(contents) if callable(change) else contents if change is None else change)
    return target


class Touch:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def evil_data(sentinel: Path) -> Callable[[bytes], bytes]:
    """`data` whose pickles all make a folder."""
    text = base64.b64encode(pickle.dumps(Touch(sentinel))).decode()

    def change(contents: bytes) -> bytes:
        facts = json.loads(contents)
        for value in facts.values():
            if isinstance(value, dict) and ":serialized:" in value:
                value[":serialized:"] = text
        return json.dumps(facts).encode()

    return change


def evil_weights(sentinel: Path) -> bytes:
    """A file of torch's that makes a folder."""
    import torch

    file = io.BytesIO()
    torch.save({"action_net.weight": Touch(sentinel)}, file)
    return file.getvalue()
