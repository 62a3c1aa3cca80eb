"""Numbered episodes on a GPU: all of them at once, in an env each, beside the agent.

They begin as the same episodes on the CPU do (see episodes.py). The host only asks after every CHUNK steps whether all
have ended. Until then envs whose episode is over play on: only the first episode of an env counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rookery.engine.make_vec import make_vec
from rookery.learners.agent import Agent
from rookery.learners.captured_call import CapturedCall
from rookery.learners.frozen_policy import FrozenPolicy, forward_pass
from rookery.learners.observations import MASK_KEY, split
from rookery.training.evaluation.episodes import PlayedEpisode, action_seed, episode_seed, result_of_two
from rookery.training.evaluation.win_record import final_numbers_of_row, outcomes_of_row
from rookery.training.players.agents import BLOCK, noise_block
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.world_choice import World

CHUNK = 32  # steps of one CUDA graph; BLOCK is a multiple of it
MOST_ENVS = 4096  # more episodes are played one such batch after another


class DeviceEpisodes:
    """Envs of a world on a GPU, kept between evaluations."""

    def __init__(self, world: World, episodes: int, device: str, deterministic: bool, **options: Any) -> None:
        """`episodes` are played at a time; `options` are those of `make_vec`."""
        with explain_option_errors(world):
            engine: Any = make_vec(
                world.factory, min(episodes, MOST_ENVS), "cuda", device=device, autoreset_mode="SameStep", copy=False,
                **options,
            )  # fmt: skip
        self.engine, self._device, self._deterministic = engine, engine.device, deterministic
        self._agents, rows = engine.agents, engine.num_envs
        self._playing = torch.zeros(rows, dtype=torch.bool, device=self._device)
        self._returns, self._lengths = (
            torch.zeros_like(x) for x in (self.engine.last_returns, self.engine.last_lengths)
        )
        self._infos = {name: torch.zeros_like(column) for name, column in self._info_columns().items()}
        self._memory: Tensor | None = None
        self._noise: Tensor | None = None
        self._agent: Agent | None = None
        self._addresses: list[int] = []
        self._frozen: FrozenPolicy | None = None
        self._chunk = CapturedCall(
            self._make_steps, self._device, state=self._state, name="an evaluation", plain=not engine.can_be_captured
        )

    def play(
        self,
        agent: Agent,
        seed: int,
        numbers: Sequence[int],
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[PlayedEpisode] | None:
        """The results of the episodes with these numbers; None if `stop()` was true before the end. `progress` is
        called with the number of finished episodes."""
        self._use(agent)
        results: list[PlayedEpisode] = []
        for start in range(0, len(numbers), self.engine.num_worlds):
            some = numbers[start : start + self.engine.num_worlds]
            played = self._play(seed, some, stop, lambda done, before=start: progress(before + done))  # type: ignore[misc]
            if played is None:
                return None
            results += played
        return results

    def close(self) -> None:
        self._chunk.release()
        self.engine.close()

    def _use(self, agent: Agent) -> None:
        """Act as this agent does now. Another one, or one whose weights have moved, is captured again."""
        addresses = [part.data_ptr() for part in agent.policy.state_dict().values()]
        if self._agent is None or self._agent.policy is not agent.policy or self._addresses != addresses:
            self._chunk.release()
            rows, policy = self.engine.num_envs, agent.policy
            self._memory = torch.zeros(rows, policy.memory_size, device=self._device) if policy.memory_size else None
            if not self._deterministic:
                block = policy.sample_noise(CHUNK, torch.Generator())
                self._noise = torch.zeros(CHUNK, rows, *block.shape[1:], dtype=block.dtype, device=self._device)
        self._agent, self._addresses, self._frozen = agent, addresses, forward_pass(agent.policy)

    def _play(
        self, seed: int, numbers: Sequence[int], stop: Callable[[], bool], progress: Callable[[int], None]
    ) -> list[PlayedEpisode] | None:
        self._begin(seed, numbers)
        progress(0)
        steps, left = 0, len(numbers)
        while left:
            if stop():
                return None
            self._sample_noise(seed, numbers, steps)
            self._chunk()
            steps += CHUNK
            left = int(self._playing.sum()) // self._agents
            progress(len(numbers) - left)
        self.engine.check()
        return self._results(numbers)

    def _begin(self, seed: int, numbers: Sequence[int]) -> None:
        """An episode begins in every env; those of envs without a number do not count."""
        seeds = [episode_seed(seed, number) for number in numbers]
        self.engine.reset(seed=seeds + [0] * (self.engine.num_worlds - len(seeds)))
        self._playing.zero_()
        self._playing[: len(numbers) * self._agents] = True
        if self._memory is not None:
            self._memory.zero_()

    def _sample_noise(self, seed: int, numbers: Sequence[int], steps: int) -> None:
        """The noise of the next steps, as `AgentPlayer` has it."""
        if self._noise is None:
            return
        assert self._agent is not None
        number, at = divmod(steps, BLOCK)
        if at == 0:
            policy, generator = self._agent.policy, torch.Generator()
            seeds = [action_seed(seed, episode, k) for episode in numbers for k in range(self._agents)]
            blocks = [noise_block(policy, each, number, generator) for each in seeds]
            self._block = torch.stack(blocks, 1).to(self._device)
        self._noise[:, : self._block.shape[1]].copy_(self._block[at : at + CHUNK])

    def _make_steps(self) -> None:
        """CHUNK steps of all envs, without the host."""
        agent, frozen, engine = self._agent, self._frozen, self.engine
        assert agent is not None and frozen is not None
        observations, mask = engine.present()
        for k in range(CHUNK):
            leaves = split(agent.policy.leaves, observations, self._device)
            noise = None if self._noise is None else self._noise[k]
            actions, memory = frozen.on_tensors(leaves, noise, self._memory, _flat_mask(observations, mask))
            if self._memory is not None and memory is not None:
                self._memory.copy_(memory)
            _, _, terminated, truncated, _ = engine.step(agent.nested(actions))
            observations, mask = engine.present()
            self._record(terminated | truncated)

    def _record(self, ended: Tensor) -> None:
        """Keep the results of episodes that have ended, if they are the first ones of their envs."""
        first = ended & self._playing
        found = {**self._info_columns(), "": self.engine.last_returns}
        for name, kept in {**self._infos, "": self._returns}.items():
            kept.copy_(torch.where(first, found[name], kept))
        self._lengths.copy_(torch.where(first, self.engine.last_lengths, self._lengths))
        self._playing.logical_and_(~ended)

    def _info_columns(self) -> dict[str, Tensor]:
        """The infos of last steps that are one number per row."""
        return {name: column for name, column in self.engine.final_infos().items() if column.ndim == 1}

    def _state(self) -> list[Tensor]:
        memory = [] if self._memory is None else [self._memory]
        return [
            *self.engine.device_state(),
            self._playing,
            self._returns,
            self._lengths,
            *self._infos.values(),
            *memory,
        ]

    def _results(self, numbers: Sequence[int]) -> list[PlayedEpisode]:
        """The results, in the order of the numbers."""
        rows, metadata = len(numbers) * self._agents, self.engine.metadata
        returns, lengths = (x[:rows].cpu().numpy().reshape(-1, self._agents) for x in (self._returns, self._lengths))
        infos: dict[str, Any] = {name: column[:rows].cpu().numpy() for name, column in self._infos.items()}
        infos |= {f"_{name}": [True] * rows for name in self._infos}
        results = []
        for k, row in enumerate(range(0, rows, self._agents)):
            outcomes = outcomes_of_row(infos, row, metadata) | final_numbers_of_row(infos, row, metadata)
            outcomes |= result_of_two(returns[k]) if self._agents == 2 else {}
            results.append(PlayedEpisode(float(returns[k].mean()), int(lengths[k, -1]), outcomes))
        return results


def _flat_mask(observations: Any, mask: Tensor | None) -> Tensor | None:
    """The action masks of all rows, from a Dict observation's "action_mask" or else from the infos'."""
    if isinstance(observations, dict) and MASK_KEY in observations:
        mask = observations[MASK_KEY]
    return None if mask is None else mask.bool().reshape(len(mask), -1)
