"""The storage of a rollout: arrays [steps, envs, ...], allocated once and filled again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import CheckpointError
from rookery.learners.heads import Head
from rookery.learners.kernels.gpu.shuffle import sample_order
from rookery.learners.observations import Leaf

FinalLeaves = tuple[np.ndarray, list[Tensor]]  # rows, and the leaves of their last observations


class Rollout:
    """Each group of envs counts its own steps: groups step in turns, and all are done when the rollout is full."""

    def __init__(
        self, leaves: Sequence[Leaf], head: Head, length: int, envs: int, memory: int, device: torch.device
    ) -> None:
        def array(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(length, envs, *shape, dtype=dtype, device=device)

        self.length, self.envs, self.device = length, envs, device
        self.observations = [array(*leaf.shape, dtype=leaf.dtype) for leaf in leaves]
        self.last = [torch.zeros(envs, *leaf.shape, dtype=leaf.dtype, device=device) for leaf in leaves]
        self.actions = array(*head.shape, dtype=head.dtype)
        self.outputs = array(head.outputs)
        self.rewards = array()
        self.terminated, self.ended, self.starts = (array(dtype=torch.bool) for _ in range(3))
        self.features = array(memory) if memory else None  # what a recurrent policy remembers after each step
        self.first_memory = torch.zeros(envs, memory, device=device)
        self.masks: Tensor | None = None
        self.last_masks: Tensor | None = None  # of the actions after the last step, for values of actions
        self.noise: Tensor | None = None
        self._noise_memory: Tensor | None = None  # on a GPU, where the noise of every rollout lies
        self.values: Tensor | None = None  # of the critic and log-probabilities, if known from acting
        self.log_probs: Tensor | None = None
        self.final_values: Tensor | None = None  # of truncated episodes, where envs return tensors
        self.noise_size = head.noise_size
        self._noise_array: np.ndarray | None = None
        self._written = self._as_written()
        self.finals: list[tuple[int, Tensor, list[Tensor]]] = []  # of truncated episodes: step, envs, leaves
        self._clocks: dict[int, int] = {}
        self.recorded = 0

    def _as_written(self) -> dict[str, Any]:
        """The tensors written at every step; on a CPU as arrays, in which setting a row takes a tenth of the time."""
        names = ("outputs", "actions", "rewards", "terminated", "ended", "starts")
        tensors: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.device.type != "cpu":
            return {**tensors, "observations": self.observations}
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return {**arrays, "observations": [leaf.numpy() for leaf in self.observations]}

    def _fit(self, values: Any) -> Any:
        """An array or tensor in the form that `_written` needs."""
        if self.device.type == "cpu":
            return values.numpy() if isinstance(values, Tensor) else values
        return values if isinstance(values, Tensor) else torch.from_numpy(values).to(self.device)

    @property
    def full(self) -> bool:
        """Whether every env has made all its steps."""
        return self.recorded == self.length * self.envs

    def steps_made(self, rows: slice) -> int:
        """How many steps these envs have made."""
        return self._clocks.get(rows.start, 0)

    def begin(self, noise: Tensor, memory: Tensor) -> None:
        """A new rollout, with the noise for sampling its actions."""
        self.noise = noise if self.device.type == "cpu" else self._in_place(noise)
        self.first_memory.copy_(memory)

    def _in_place(self, noise: Tensor) -> Tensor:
        """The noise where that of the last rollout was: captured work on a GPU reads it there."""
        if self._noise_memory is None:
            self._noise_memory = torch.empty_like(noise)
        return self._noise_memory.copy_(noise)

    @property
    def noise_array(self) -> np.ndarray:
        """The noise, on a CPU."""
        if self._noise_array is None:
            assert self.noise is not None
            self._noise_array = self.noise.numpy()
        return self._noise_array

    def store(
        self, t: int, rows: slice, leaves: Sequence[Tensor], outputs: Tensor, actions: Tensor, features: Tensor
    ) -> None:
        """Observations and actions of step `t`."""
        w, fit = self._written, self._fit
        for kept, leaf in zip(w["observations"], leaves, strict=True):
            kept[t, rows] = fit(leaf)
        w["outputs"][t, rows] = fit(outputs)
        w["actions"][t, rows] = fit(actions)
        if self.features is not None:
            self.features[t, rows] = features

    def store_arrays(self, t: int, rows: slice, vectors: np.ndarray, outputs: np.ndarray, actions: np.ndarray) -> None:
        """`store` for arrays, on a CPU and for observations of one leaf."""
        w = self._written
        w["observations"][0][t, rows] = vectors
        w["outputs"][t, rows] = outputs
        w["actions"][t, rows] = actions

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The storage of every step, on a CPU and for observations of one leaf, for a compiled loop."""
        names = ("outputs", "actions", "rewards", "terminated", "ended", "starts")
        return self._written["observations"][0], *(self._written[name] for name in names)

    def advance(self, rows: slice, steps: int) -> None:
        """Steps of these envs were written by a compiled loop."""
        self._clocks[rows.start] = self.steps_made(rows) + steps
        self.recorded += steps * (rows.stop - rows.start)

    def store_mask(self, t: int, rows: slice | np.ndarray, mask: Any) -> Tensor:
        """Which actions were allowed in step `t`."""
        allowed = mask if isinstance(mask, Tensor) else torch.from_numpy(mask).to(self.device)
        if self.masks is None:
            self.masks = torch.ones(self.length, self.envs, *mask.shape[1:], dtype=torch.bool, device=self.device)
        self.masks[t, rows] = allowed
        return allowed

    def store_last(self, rows: slice, leaves: Sequence[Tensor]) -> None:
        """The observations after the last step."""
        for kept, leaf in zip(self.last, leaves, strict=True):
            kept[rows] = leaf

    def store_last_mask(self, rows: slice, mask: Any) -> None:
        """Which actions are allowed after the last step."""
        if self.last_masks is None:
            self.last_masks = torch.ones(self.envs, *mask.shape[1:], dtype=torch.bool, device=self.device)
        self.last_masks[rows] = mask if isinstance(mask, Tensor) else torch.from_numpy(mask).to(self.device)

    def new_array(self) -> Tensor:
        """Zeros [steps, envs]: for values, log-probabilities or final values."""
        return torch.zeros(self.length, self.envs, device=self.device)

    def store_tensors(self, rows: slice, rewards: Tensor, terminated: Tensor, truncated: Tensor) -> None:
        """`store_outcome` for tensors; nothing waits for their device. Final values are stored apart."""
        t, ended = self.steps_made(rows), terminated | truncated
        self.rewards[t, rows] = rewards.to(self.rewards.dtype)
        self.terminated[t, rows] = terminated
        self.ended[t, rows] = ended
        if t + 1 < self.length:
            self.starts[t + 1, rows] = ended
        self.advance(rows, 1)

    def store_outcome(
        self,
        rows: slice,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        finals: FinalLeaves | None,
    ) -> None:
        """What the envs said to it; `finals` are those of truncated episodes."""
        t, w = self.steps_made(rows), self._written
        w["rewards"][t, rows] = self._fit(rewards)
        ended = terminated | truncated
        if ended.any():
            ended = self._fit(ended)
            w["terminated"][t, rows] = self._fit(terminated)
            w["ended"][t, rows] = ended
            if t + 1 < self.length:
                w["starts"][t + 1, rows] = ended
        if finals is not None:
            envs = torch.from_numpy(finals[0] + rows.start).to(self.device)
            self.finals.append((t, envs, finals[1]))
        self._clocks[rows.start] = t + 1
        self.recorded += len(rewards)

    def joined_finals(self) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Steps, envs and last observations of all truncated episodes."""
        steps = torch.cat([torch.full_like(envs, t) for t, envs, _ in self.finals])
        leaves = [torch.cat(parts) for parts in zip(*(leaves for _, _, leaves in self.finals), strict=True)]
        return steps, torch.cat([envs for _, envs, _ in self.finals]), leaves

    def flat_leaves(self) -> list[Tensor]:
        """The observations as one batch."""
        return [leaf.flatten(0, 1) for leaf in self.observations]

    def minibatches(
        self, samples: dict[str, Tensor], count: int, generator: torch.Generator
    ) -> Iterator[dict[str, Tensor]]:
        """The rollout and `samples` once, shuffled, in `count` parts. The parts of a recurrent policy are complete
        trajectories of some envs, [steps, envs, ...]; all others are rows."""
        tensors, axis = self.to_shuffle(self.columns(samples))
        total = self.envs if axis else self.length * self.envs
        order = sample_order(total, generator)
        size = -(-total // min(count, total))
        # Shuffling everything once is faster than gathering each part of it.
        columns = [_in_order(value, axis, order).split(size, axis) for value in tensors.values()]
        for parts in zip(*columns, strict=True):
            yield dict(zip(tensors, parts, strict=True))

    def columns(self, samples: dict[str, Tensor]) -> dict[str, Tensor]:
        """What a minibatch has, each [steps, envs, ...]; of a recurrent policy also the memory at the start, [1, envs,
        ...]."""
        tensors = {**samples, "actions": self.actions, "starts": self.starts}
        if self.masks is not None:
            tensors["masks"] = self.masks
        tensors |= {f"leaf{k}": leaf for k, leaf in enumerate(self.observations)}
        return tensors if self.features is None else tensors | {"memory": self.first_memory.unsqueeze(0)}

    def to_shuffle(self, columns: dict[str, Tensor]) -> tuple[dict[str, Tensor], int]:
        """Columns as they are shuffled, and along which axis: trajectories of a recurrent policy, else rows."""
        if self.features is not None:
            return columns, 1
        return {name: value.flatten(0, 1) for name, value in columns.items() if name != "starts"}, 0

    def clear(self) -> None:
        """Start again, empty."""
        for flags in (self.terminated, self.ended, self.starts):
            flags.zero_()
        if self.masks is not None:
            self.masks.fill_(True)
        if self.last_masks is not None:
            self.last_masks.fill_(True)
        self.forget()

    def forget(self) -> None:
        """Count from the first step again, and leave the arrays as they are: captured work clears them itself."""
        self.finals, self._clocks, self.recorded = [], {}, 0
        self.noise = self._noise_array = None

    # --- save and load a rollout that is not yet full -------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Empty between two rollouts, else what was stored so far."""
        if self.noise is None:
            return {}
        arrays = {name: value.cpu().numpy().copy() for name, value in self.tensors().items()}
        for k, (_, envs, leaves) in enumerate(self.finals):
            parts = {"envs": envs, **{f"leaf{n}": leaf for n, leaf in enumerate(leaves)}}
            arrays |= {f"final{k}_{name}": value.cpu().numpy().copy() for name, value in parts.items()}
        clocks = {str(start): steps for start, steps in self._clocks.items()}
        return {
            "arrays": arrays,
            "clocks": clocks,
            "answered": self.recorded,
            "final_steps": [t for t, _, _ in self.finals],
        }

    def load(self, state: dict[str, Any]) -> None:
        self.clear()
        if not state:
            return
        arrays = {name: torch.from_numpy(np.array(value)).to(self.device) for name, value in state["arrays"].items()}
        self.noise = arrays["noise"]
        for name in ("masks", "last_masks", "values", "log_probs", "final_values"):
            setattr(self, name, arrays.get(name))
        for name, tensor in self.tensors().items():
            tensor.copy_(arrays[name])
        leaves = range(len(self.observations))
        self.finals = [
            (t, arrays[f"final{k}_envs"], [arrays[f"final{k}_leaf{n}"] for n in leaves])
            for k, t in enumerate(state["final_steps"])
        ]
        self._clocks = {int(start): int(steps) for start, steps in state["clocks"].items()}
        self.recorded = int(state["answered"])
        # A compiled loop counts on it: beyond the ends of these arrays lies other memory.
        if not all(0 <= start < self.envs and 0 <= t <= self.length for start, t in self._clocks.items()):
            raise CheckpointError(f"an unfinished rollout lies outside of its {self.length} steps of {self.envs} envs")
        shape = (self.length, self.envs, self.noise_size)
        if self.noise.shape != shape or self.noise.dtype != torch.float32:
            found = tuple(self.noise.shape)
            raise CheckpointError(f"noise of shape {found} does not fit a rollout that needs {shape}")

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        named = {f"observation{k}": leaf for k, leaf in enumerate(self.observations)}
        named |= {f"last{k}": leaf for k, leaf in enumerate(self.last)}
        for name in (
            "actions", "outputs", "rewards", "terminated", "ended", "starts", "features", "first_memory", "masks",
            "last_masks", "noise", "values", "log_probs", "final_values",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None:
                named[name] = value
        return named


def _in_order(values: Tensor, axis: int, order: Tensor) -> Tensor:
    """`values.index_select(axis, order)`. Bytes of images are moved eight at a time: a GPU takes as long for one."""
    width = values[(0,) * (axis + 1)].numel()
    if values.dtype != torch.uint8 or width % 8 or not values.is_contiguous():
        return values.index_select(axis, order)
    wide = values.reshape(*values.shape[: axis + 1], width).view(torch.int64)
    shape = *values.shape[:axis], len(order), *values.shape[axis + 1 :]
    return wide.index_select(axis, order).view(torch.uint8).reshape(shape)
