"""Frames of envs as one compressed image: tiles side by side.

Measured with Pillow, a frame of CartPole (600 x 400): JPEG 1.2 ms and 7 kB, PNG 5.5 ms, WebP 5.6 ms. Sixteen screens of
a Game Boy (640 x 576 in all): lossless WebP 14 ms and 9 kB, PNG 20 ms and 39 kB, JPEG 4.5 ms, blurred, and 185 kB. So
small screens, whose pixels people can see, are WebP without loss, and all others JPEG.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.extras import load_pillow
from rookery.learners.agent import Agent
from rookery.learners.algorithms.dqn import QPolicy
from rookery.learners.algorithms.ppo import ActorCritic
from rookery.learners.algorithms.pqn import PQNPolicy
from rookery.learners.algorithms.sac import SACPolicy
from rookery.learners.algorithms.td3 import TD3Policy
from rookery.learners.heads import (
    BernoulliHead,
    CategoricalHead,
    CompositeHead,
    GaussianHead,
    Head,
    MultiCategoricalHead,
)
from rookery.learners.observations import split
from rookery.training.show.grid import choose_columns
from rookery.training.show.video import as_rgb

SMALL = 256  # pixels of a side, up to which a frame is a screen of pixels that can be seen
MAX_WIDTH = 1280  # pixels of the whole image


class FrameImages:
    """Encodes the frames of `count` envs, which are of the size of the first."""

    def __init__(self, count: int, first: np.ndarray) -> None:
        self._image = load_pillow()
        height, width = as_rgb(first).shape[:2]
        self.count, self.columns = count, choose_columns(count, width / height)
        self.rows = math.ceil(count / self.columns)
        self._shrink = max(1, math.ceil(self.columns * width / MAX_WIDTH))
        self.height, self.width = height // self._shrink, width // self._shrink
        self._lossless = max(height, width) <= SMALL

    def describe(self) -> dict[str, Any]:
        """The tiles of the image, for the page."""
        tiles = {name: getattr(self, name) for name in ("count", "columns", "rows", "width", "height")}
        return {**tiles, "format": "image/webp" if self._lossless else "image/jpeg", "pixelated": self._lossless}

    def encode(self, frames: Sequence[np.ndarray]) -> bytes:
        whole = np.zeros((self.rows * self.height, self.columns * self.width, 3), np.uint8)
        for k, frame in enumerate(frames):
            top, left = k // self.columns * self.height, k % self.columns * self.width
            whole[top : top + self.height, left : left + self.width] = self._fitted(as_rgb(frame))
        picture, out = self._image.fromarray(whole), io.BytesIO()
        if self._lossless:
            picture.save(out, "WEBP", lossless=True, method=0, quality=0)
        else:
            picture.save(out, "JPEG", quality=85)
        return out.getvalue()

    def _fitted(self, frame: np.ndarray) -> np.ndarray:
        """The frame in the size of a tile; an env may change the size of its frames."""
        if frame.shape[:2] == (self.height, self.width):
            return frame
        picture = self._image.fromarray(np.ascontiguousarray(frame))
        return np.asarray(picture.resize((self.width, self.height), self._image.Resampling.BOX))


MOST_ACTIONS = 64  # of each kind that are sent


@torch.no_grad()
def policy_outputs(
    agent: Agent, observations: Any, mask: np.ndarray | None = None, memory: np.ndarray | None = None
) -> dict[str, Any]:
    """For a batch of one observation: `probabilities` (a list for each discrete action), `mean` and `std`, or `q`; and
    `value`, if the policy has one: a critic of SAC or TD3 is not part of an agent."""
    policy = agent.policy
    leaves = split(policy.leaves, observations, agent.device)
    allowed = None if mask is None else torch.as_tensor(mask).bool().reshape(1, -1)
    if isinstance(policy, ActorCritic):
        features = policy.features(leaves, None if memory is None else torch.as_tensor(memory))
        outputs = policy.actor(features)
        if allowed is not None:
            outputs = policy.head.apply_mask(outputs, allowed)
        return {**_of_head(policy.head, outputs), "value": float(policy.critic(features).reshape(-1)[0])}
    if isinstance(policy, (QPolicy, PQNPolicy)):
        values = policy(leaves)
        if allowed is not None:
            values = values.masked_fill(~allowed, -torch.inf)
        best = policy.best(values) if isinstance(policy, PQNPolicy) else values.max()
        return {"q": _numbers(values), "value": float(best)}
    if isinstance(policy, SACPolicy):
        mean, log_std = policy(policy.encoder(leaves))
        return {"mean": _numbers(policy.bounds.to_env(mean.tanh())), "std": _numbers(log_std.exp()), "squashed": True}
    if isinstance(policy, TD3Policy):
        return {"mean": _numbers(policy.bounds.to_env(policy(policy.encoder(leaves))))}
    return {}


def _of_head(head: Head, outputs: Tensor) -> dict[str, Any]:
    if isinstance(head, CategoricalHead):
        return {"probabilities": [_numbers(outputs.softmax(-1))]}
    if isinstance(head, MultiCategoricalHead):
        return {"probabilities": [_numbers(part.softmax(-1)) for part in outputs.split(head.sizes, -1)]}
    if isinstance(head, BernoulliHead):
        return {"probabilities": [_numbers(torch.stack([1 - p, p])) for p in outputs.sigmoid().reshape(-1)]}
    if isinstance(head, GaussianHead):
        return {"mean": _numbers(outputs), "std": _numbers(head.log_std.exp())}
    if isinstance(head, CompositeHead):
        return _joined([_of_head(part, part_outputs) for part, part_outputs in head.with_outputs(outputs)])
    return {}


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The outputs of several heads: lists one after the other."""
    joined: dict[str, Any] = {}
    for part in parts:
        for name, numbers in part.items():
            joined[name] = joined.get(name, []) + numbers
    return joined


def _numbers(values: Tensor) -> list[float]:
    return [round(value, 5) for value in values.reshape(-1)[:MOST_ACTIONS].tolist()]
