"""What actions are explored with: noise for continuous ones, of any colour (Eberhard et al., 2023) and sampled for many
steps ahead; for discrete ones the share of random actions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.learner_spec import Colour

COLOURS = {"gaussian": 0.0, "pink": 1.0}  # the exponent of the frequency by which the power falls
STRETCH = 1024  # steps sampled at once; coloured noise is correlated for at most this long
SPREAD = 7.0  # with epsilon_per_env, the last env's epsilon is the first one's to the power of 1 + this


class Noise:
    """Numbers of mean 0 and standard deviation 1 for each env and action dimension."""

    def __init__(self, colour: Colour, num_envs: int, size: int, generator: torch.Generator) -> None:
        self.exponent, self.size, self._generator = exponent_of(colour), size, generator
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
        if self.exponent:
            return coloured(self.exponent, (STRETCH, envs, self.size), self._generator)
        return torch.randn(STRETCH, envs, self.size, generator=self._generator, device=self._generator.device)

    def state(self) -> dict[str, Any]:
        """The noise sampled so far, and how much of it is used."""
        return {"drawn": self._drawn.cpu().numpy().copy(), "used": list(self._used)}

    def load(self, state: dict[str, Any]) -> None:
        self._drawn = torch.from_numpy(np.array(state["drawn"])).to(self._generator.device)
        self._used = list(state["used"])


class RolloutNoise:
    """What the actions of rollouts are sampled with. Coloured noise continues from one rollout to the next."""

    def __init__(self, head: Any, colour: Colour, num_envs: int) -> None:
        self._head, self._num_envs = head, num_envs
        self._exponent, self._columns = exponent_of(colour), torch.tensor(head.gaussian_columns, dtype=torch.int64)
        if self._exponent and not len(self._columns):
            raise OptionError(f"`noise` = {colour!r} is for continuous actions, and this world has none: omit it")
        self._left = torch.zeros(0, num_envs, len(self._columns))  # of coloured noise, what is not used yet
        self._placed: Tensor | None = None

    def sample(self, steps: int, generator: torch.Generator) -> Tensor:
        """For so many steps of all envs, [steps, envs, noise]."""
        ready = self._placed if self._placed is not None else self._coloured(steps, generator)
        noise = self._head.sample_noise(steps, self._num_envs, generator=generator)
        if ready is not None:
            noise.index_copy_(-1, self._columns, ready)
        return noise

    def place(self, steps: int, generator: torch.Generator) -> None:
        """On the host, before each `sample` that is captured: that finds its coloured noise in one place."""
        ready = self._coloured(steps, generator)
        self._placed = ready if self._placed is None or ready is None else self._placed.copy_(ready)

    def _coloured(self, steps: int, generator: torch.Generator) -> Tensor | None:
        if not self._exponent:
            return None
        self._columns = self._columns.to(generator.device)  # now: captured work cannot bring it there
        parts = [self._left.to(generator.device)]
        while sum(map(len, parts)) < steps:
            parts.append(coloured(self._exponent, (STRETCH, *self._left.shape[1:]), generator))
        drawn = torch.cat(parts)
        self._left = drawn[steps:].clone()
        return drawn[:steps]

    def state(self) -> dict[str, Any]:
        """What the next rollout needs."""
        return {"noise": self._left.cpu().numpy().copy()} if self._exponent else {}

    def load(self, state: dict[str, Any]) -> None:
        if self._exponent and "noise" in state:
            self._left = torch.from_numpy(np.array(state["noise"])).reshape(-1, *self._left.shape[1:])


def exponent_of(colour: Colour) -> float:
    """
    >>> exponent_of("pink"), exponent_of(0.5)
    (1.0, 0.5)
    """
    return COLOURS[colour] if isinstance(colour, str) else colour


def coloured(exponent: float, shape: tuple[int, int, int], generator: torch.Generator) -> Tensor:
    """Noise of standard deviation 1 over many samples, [steps, ...], whose power falls as 1/f^exponent: 0 is white, 1
    pink, 2 red.

    Timmer and König (1995): white noise in the frequencies, scaled, and brought back into time.
    """
    steps, columns = shape[0], shape[1] * shape[2]
    white = torch.randn(2, steps // 2 + 1, columns, generator=generator, device=generator.device)
    scale = torch.arange(steps // 2 + 1, device=generator.device).clamp(min=1).pow(-exponent / 2)
    real, imaginary = white * scale.unsqueeze(-1)
    # The mean, and for an even number the quickest swing, are real; they alone carry what others carry in two parts.
    ends = [0, -1] if steps % 2 == 0 else [0]
    imaginary[ends] = 0.0
    real[ends] *= math.sqrt(2.0)
    power = 4.0 * scale.square()
    power[ends] /= 2.0
    drawn = torch.fft.irfft(torch.complex(real, imaginary), n=steps, dim=0) * (steps / power.sum().sqrt())
    return drawn.reshape(shape)


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
