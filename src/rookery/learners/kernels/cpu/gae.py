"""Generalised advantage estimation in one compiled pass."""

from __future__ import annotations

import numpy as np

from rookery.learners.cached_njit import cached_njit


@cached_njit(nogil=True)
def compute_gae(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    ended: np.ndarray,
    gamma: float,
    lam: float,
    out: np.ndarray,
) -> None:
    """Fill `out` [steps, envs].

    `next_values` are the critic's values of the observation after each step: the final one where an episode ended, not
    the next episode's first. The value after a terminated episode is zero, and no advantage reaches across the end of
    an episode.
    """
    steps, envs = rewards.shape
    carried = np.zeros(envs, np.float32)
    for t in range(steps - 1, -1, -1):
        for i in range(envs):
            after = np.float32(0.0) if terminated[t, i] else next_values[t, i]
            delta = rewards[t, i] + np.float32(gamma) * after - values[t, i]
            if ended[t, i]:
                carried[i] = np.float32(0.0)
            carried[i] = delta + np.float32(gamma * lam) * carried[i]
            out[t, i] = carried[i]
