"""What actions are explored with: noise for continuous ones, sampled for many steps ahead; for discrete ones the share
of random actions."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

STRETCH = 1024  # steps sampled at once; pink noise is correlated for at most this long
SPREAD = 7.0  # with epsilon_per_env, the last env's epsilon is the first one's to the power of 1 + this


class Noise:
    """Numbers of mean 0 and standard deviation 1 for each env and action dimension."""

    def __init__(self, kind: Literal["gaussian", "pink"], num_envs: int, size: int, generator: torch.Generator) -> None:
        self.kind, self.size, self._generator = kind, size, generator
        self.resize(num_envs)

    def resize(self, num_envs: int) -> None:
        """Another number of envs; all noise is sampled again."""
        self._drawn = torch.zeros(STRETCH, num_envs, self.size, device=self._generator.device)
        self._used = [STRETCH] * num_envs

    def sample(self, rows: slice) -> Tensor:
        """For one step of the envs in `rows`, [envs, size]."""
        step = self._used[rows.start]
        if step == STRETCH:
            step = 0
            self._drawn[:, rows] = self._draw(len(self._used[rows]))
        self._used[rows] = [step + 1] * len(self._used[rows])
        return self._drawn[step, rows]

    def _draw(self, envs: int) -> Tensor:
        if self.kind == "pink":
            return pink(STRETCH, envs * self.size, self._generator).reshape(STRETCH, envs, self.size)
        return torch.randn(STRETCH, envs, self.size, generator=self._generator, device=self._generator.device)

    def state(self) -> dict[str, Any]:
        """The noise sampled so far, and how much of it is used."""
        return {"drawn": self._drawn.cpu().numpy().copy(), "used": list(self._used)}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        self._drawn = torch.from_numpy(np.array(state["drawn"])).to(self._generator.device)
        self._used = list(state["used"])


def pink(steps: int, columns: int, generator: torch.Generator) -> Tensor:
    """Columns of noise whose power falls as 1/f, [steps, columns], of standard deviation 1 over many samples.

    Timmer and König (1995): white noise in the frequencies, scaled, and brought back into time.
    """
    white = torch.randn(2, steps // 2 + 1, columns, generator=generator, device=generator.device)
    scale = torch.arange(steps // 2 + 1, device=generator.device).clamp(min=1).rsqrt()
    real, imaginary = white * scale.unsqueeze(-1)
    # The mean, and for an even number the quickest swing, are real; they alone carry what others carry in two parts.
    ends = [0, -1] if steps % 2 == 0 else [0]
    imaginary[ends] = 0.0
    real[ends] *= math.sqrt(2.0)
    power = 4.0 * scale.square()
    power[ends] /= 2.0
    return torch.fft.irfft(torch.complex(real, imaginary), n=steps, dim=0) * (steps / power.sum().sqrt())


class Epsilon:
    """The share of random actions: it falls with the steps, or with `epsilon_decay` after each episode."""

    def __init__(self, options: Any, num_envs: int, device: torch.device) -> None:
        self._options, self._num_envs, self._device = options, num_envs, device
        self.fallen: Any = 1.0  # the product of `epsilon_decay` over all episodes
        self._powers = self._make_powers()

    def _make_powers(self) -> Tensor | None:
        if not self._options.epsilon_per_env or self._num_envs == 1:
            return None
        return 1.0 + SPREAD * torch.linspace(0.0, 1.0, self._num_envs, device=self._device).unsqueeze(-1)

    def use(self, options: Any) -> None:
        """Follow changed options."""
        self._options = options
        self._powers = self._make_powers()

    def resize(self, num_envs: int) -> None:
        """Another number of envs."""
        self._num_envs = num_envs
        self._powers = self._make_powers()

    def share(self, rows: slice, steps: int) -> float | Tensor:
        """After so many steps, per env in `rows` if they differ."""
        share = self._scheduled(steps) if self._options.epsilon_decay is None else self._decayed()
        return share if self._powers is None else (share**self._powers)[rows]

    def _scheduled(self, steps: int) -> float:
        options, done = self._options, min(1.0, steps / self._options.epsilon_steps)
        return options.epsilon_start + done * (options.epsilon_end - options.epsilon_start)

    def _decayed(self) -> float:
        return max(self._options.epsilon_end, self._options.epsilon_start * self.fallen)

    def count(self, episodes: int) -> None:
        """So many episodes have ended."""
        if self._options.epsilon_decay is not None:
            self.fallen *= self._options.epsilon_decay**episodes

    def load(self, fallen: float) -> None:
        """Continue from a saved `fallen`."""
        self.fallen = fallen


def random_places(count: int, chosen: int, generator: torch.Generator) -> Tensor:
    """So many different numbers below `count`; elsewhere than on a CPU without waiting for the device."""
    if generator.device.type == "cpu":
        return torch.randperm(count, generator=generator)[:chosen]
    return torch.rand(count, generator=generator, device=generator.device).topk(chosen).indices
