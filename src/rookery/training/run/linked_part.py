"""The arrays of envs that step together, on a learner's device, and their actions on the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.learner import Learner, StepBatch, TensorFinals
from rookery.learners.observations import Leaf
from rookery.training.run.host_copies import CopyStream, PackedCopies

LARGE = 1 << 16  # bytes of an observation's part in a step: copied from where it is, rather than packed with others


class LinkedPart:
    """Envs that step together: what they return, on the device, and their actions."""

    def __init__(self, learner: Learner, rows: slice, observations: Any, mask: np.ndarray | None) -> None:
        device, self._leaves = learner.device, learner.leaves
        self.rows, count = rows, rows.stop - rows.start
        arrays = [np.asarray(_at(observations, leaf)) for leaf in self._leaves]
        shapes = [((count, *leaf.shape), leaf.dtype) for leaf in self._leaves]
        large = {k for k, leaf in enumerate(self._leaves) if _is_large(arrays[k], leaf)}
        plan = {f"leaf{k}": shape for k, shape in enumerate(shapes) if k not in large}
        plan |= {"rewards": ((count,), torch.float32)}
        plan |= {name: ((count,), torch.bool) for name in ("terminated", "truncated")}
        if mask is not None:
            plan["mask"] = mask.shape, torch.bool
        self.stream = CopyStream(device, beside=bool(large))
        self._packed = PackedCopies(plan, device)
        self._finals = PackedCopies({f"leaf{k}": shape for k, shape in enumerate(shapes)}, device)
        self._large = {k: torch.zeros(shapes[k][0], dtype=shapes[k][1], device=device) for k in large}
        self._device, self._nested = device, None
        self._fetched: PackedCopies | None = None  # the actions
        self._arrived = torch.cuda.Event() if device.type == "cuda" else None
        # Asking torch for it in every step takes longer than the event that is recorded in it.
        self._present = torch.cuda.current_stream(device) if device.type == "cuda" else None
        leaves = [self._large[k] if k in large else self._packed.tensors[f"leaf{k}"] for k in range(len(shapes))]
        self.observations = _nested(self._leaves, leaves)
        self._final_observations = _nested(self._leaves, list(self._finals.tensors.values()))
        self.mask, self.has_finals = self._packed.tensors.get("mask"), False
        self.stream.used()  # the first copies come after the zeros
        self._is_settled = True  # whether all copies are done
        self.is_copied = True  # whether the copy of what was packed is queued

    @property
    def has_large(self) -> bool:
        """Whether some observations are copied from where the envs write them."""
        return bool(self._large)

    @property
    def step(self) -> StepBatch:
        """The last step, as tensors that the next one overwrites."""
        tensors = self._packed.tensors
        ended = partial(torch.logical_or, tensors["terminated"], tensors["truncated"])
        finals = TensorFinals(ended, self._final_observations) if self.has_finals else None
        return StepBatch(
            self.observations, tensors["rewards"], tensors["terminated"], tensors["truncated"], finals, self.mask
        )

    def take(self, observations: Any, mask: np.ndarray | None, step: StepBatch | None = None) -> None:
        """Pack what the envs returned, and queue copies of what is not packed; `copy` or `ensure_copied` follows."""
        if not self._is_settled:  # no actions were taken since the last copies
            self.stream.settle()
        self._is_settled = self.is_copied = False
        arrays = self._packed.arrays
        for k, leaf in enumerate(self._leaves):
            if k not in self._large:
                np.copyto(arrays[f"leaf{k}"], np.asarray(_at(observations, leaf)), casting="unsafe")
        if mask is not None:
            np.copyto(arrays["mask"], mask, casting="unsafe")
        if step is not None:
            self._pack_results(step)
        if self.has_finals or self._large:
            self._copy_now(observations)

    def _copy_now(self, observations: Any) -> None:
        """Queue the copies of everything."""
        with self.stream.copying():
            self.copy()
            if self.has_finals:
                self._finals.to_device()
            for k, tensor in self._large.items():
                tensor.copy_(torch.from_numpy(_at(observations, self._leaves[k])), non_blocking=True)
        self.is_copied = True

    def copy(self) -> None:
        """Queue the copy of what was packed. Captured work may do it, each time again."""
        self._packed.to_device()

    def ensure_copied(self) -> None:
        """Queue that copy, unless it is queued."""
        if not self.is_copied:
            self.copy()
            self.is_copied = True

    def _pack_results(self, step: StepBatch) -> None:
        arrays, self.has_finals = self._packed.arrays, step.finals is not None
        np.copyto(arrays["rewards"], step.rewards, casting="same_kind")
        arrays["terminated"][...], arrays["truncated"][...] = step.terminated, step.truncated
        if step.finals is not None:
            rows, observations = step.finals
            for k, leaf in enumerate(self._leaves):
                for row, observation in zip(rows, observations, strict=True):
                    self._finals.arrays[f"leaf{k}"][row] = _at(observation, leaf)

    def keep_actions(self, actions: Any) -> None:
        """Queue the copy of actions to the place from which they are fetched."""
        tensors = _flat(actions)
        if self._fetched is None:
            self._fetched = PackedCopies({k: (tuple(x.shape), x.dtype) for k, x in tensors.items()}, self._device)
            self._nested = actions
        for name, tensor in tensors.items():
            self._fetched.tensors[name].copy_(tensor)

    def fetch_actions(self) -> None:
        """Queue the copy of actions to the host. Captured work may do it."""
        assert self._fetched is not None
        self._fetched.to_host()

    def mark_actions(self) -> None:
        """The copy of actions is queued: `actions` waits for it."""
        if self._arrived is not None:
            self._arrived.record(self._present)

    def actions(self) -> Any:
        """The actions as arrays; waits for them."""
        assert self._fetched is not None
        if self._arrived is not None:
            self._arrived.synchronize()
        self._is_settled = True
        return _unflat(self._nested, self._fetched.arrays)


def _is_large(array: np.ndarray, leaf: Leaf) -> bool:
    """Whether it is copied from where it is: as it is, and in one piece."""
    same = array.dtype == torch.empty(0, dtype=leaf.dtype).numpy().dtype
    return same and array.nbytes >= LARGE and array.flags.c_contiguous and array.flags.writeable


def _at(observation: Any, leaf: Leaf) -> Any:
    for key in leaf.path:
        observation = observation[key]
    return observation


def _nested(leaves: Sequence[Leaf], tensors: Sequence[Tensor]) -> Any:
    """Tensors by the paths of their leaves."""
    if not leaves[0].path:
        return tensors[0]
    tree: dict[Any, Any] = {}
    for leaf, tensor in zip(leaves, tensors, strict=True):
        part = tree
        for key in leaf.path[:-1]:
            part = part.setdefault(key, {})
        part[leaf.path[-1]] = tensor
    return tree


def _flat(actions: Any, path: str = "") -> dict[str, Tensor]:
    """The tensors of nested actions, by name."""
    if isinstance(actions, (dict, tuple)):
        items = actions.items() if isinstance(actions, dict) else enumerate(actions)
        return {name: x for key, part in items for name, x in _flat(part, f"{path}/{key}").items()}
    return {path: actions}


def _unflat(like: Any, arrays: dict[str, np.ndarray], path: str = "") -> Any:
    """Arrays by name, nested as the actions were."""
    if isinstance(like, dict):
        return {key: _unflat(part, arrays, f"{path}/{key}") for key, part in like.items()}
    if isinstance(like, tuple):
        return tuple(_unflat(part, arrays, f"{path}/{key}") for key, part in enumerate(like))
    return arrays[path]
