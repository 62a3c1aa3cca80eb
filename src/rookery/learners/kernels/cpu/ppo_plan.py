"""The memory of PPO's and PQN's compiled update, and its calls. The computations are in ppo_tasks.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.heads import GaussianHead, MultiCategoricalHead
from rookery.learners.kernels.cpu.layer_table import LINE, LayerTable
from rookery.learners.kernels.cpu.perceptron import KINDS, NORMALISED
from rookery.learners.kernels.cpu.ppo_tasks import (
    ACT,
    BLOCK,
    FEWEST_SLICES,
    MOST_SLICES,
    NUMBERS,
    PACK,
    PLAN,
    STATS,
    TASKS,
    TERMS,
    VALUES,
    entry_points,
    gradient_step,
    run_epochs,
    write_metrics,
)
from rookery.learners.kernels.cpu.product_tiles import LANES, padded, product_addresses
from rookery.learners.kernels.cpu.slice_team import SliceTeam
from rookery.learners.networks import networks_of
from rookery.learners.shared_nets import columns_of

Samples = dict[str, Tensor]
METRICS = 5
SLICE_NUMBERS = 1 << 23  # of the gradients of all slices; those of wide nets are written to memory, not to a cache
ROWS_TO_SHARE = 256  # of a task of acting: between two steps threads sleep, and to wake them takes a while


class PPOPlan:
    """Plans and runs updates of a learner's perceptrons on a team of threads: actor and critic, or the layer-normalised
    one that gives values of actions.

    The tensors that an update reads stay referenced until the next one: compiled code has their addresses only.
    """

    def __init__(self, learner: Any) -> None:
        policy, head = learner.policy, learner.head
        self.learner, self._entries = learner, entry_points()
        self._flat_address = learner.adam.flat.data_ptr()
        self._gaussian = isinstance(head, GaussianHead)
        self._net, *others = networks_of(policy)
        self._is_q = not others
        nets = self._net.layer_params, others[0].layer_params if others else ()
        extra = head.log_std if self._gaussian else None
        self._table = LayerTable(nets, learner.adam.flat, BLOCK, extra, layer_norm=self._is_q)
        self._sizes = np.array(head.sizes if isinstance(head, MultiCategoricalHead) else [head.outputs], np.int64)
        self._plan, self._numbers = np.zeros(1, PLAN), np.zeros(1, NUMBERS)
        self.address: int = self._plan.ctypes.data  # for compiled code, also such that acts by `act_rows`
        self._kept: dict[str, Any] = {}
        self._metrics = np.zeros(METRICS)
        self._columns = columns_of(self._net)
        assets = 1 if self._columns is None else len(self._columns)
        self._block = BLOCK // assets
        self._set(assets=assets, block=self._block, seen=policy.encoder.width)
        if self._columns is not None:
            self._keep("columns", self._columns)
        self._set_memory(padded(self._net.layer_params[0][0].shape[1], LANES))
        self._set_constants()
        self.use_team(SliceTeam(1))

    @property
    def is_current(self) -> bool:
        """Whether the parameters still lie where they were: a population moves them."""
        return self.learner.adam.flat.data_ptr() == self._flat_address

    def use_team(self, team: SliceTeam) -> None:
        """Run on these threads from now on; each has memory of its own."""
        self.team = team
        self._set(tasks=1 if team.threads == 1 else TASKS)  # one thread is quicker with the whole than with its parts
        if "work" not in self._kept or self._kept["work"].size < team.threads * self._work_size:
            self._keep("work", np.zeros(team.threads * self._work_size, np.float32))

    # --- memory ---------------------------------------------------------------------------------------------------

    def _set_memory(self, width: int) -> None:
        table, each = self._table, len(self._net.layer_params[-1][1])
        scratch = 2 * max(len(self._sizes), 1) if self._columns is None else 2 * BLOCK * each
        self._set(scratch=scratch, each=each)
        work = BLOCK * width + table.work_size + 2 * BLOCK * table.widest + scratch
        self._work_size = padded(work, LINE)
        self._keep("table", table.table)
        self._keep("packed", np.zeros(table.packed_size, np.float32))
        self._partial_size = padded(table.gradient_size, LINE)
        self._slices = min(MOST_SLICES, max(FEWEST_SLICES, SLICE_NUMBERS // self._partial_size))
        self._keep("partial", np.zeros(self._slices * self._partial_size, np.float32))
        self._keep("terms", np.zeros((self._slices, TERMS)))
        self._keep("squares", np.zeros(TASKS))
        self._keep("sizes", self._sizes)
        self._keep("numbers", self._numbers)

    def _set_constants(self) -> None:
        adam, table = self.learner.adam, self._table
        for name, tensor in zip(
            ("flat", "gradient", "first", "second"), (adam.flat, adam.gradient, *adam.moments), strict=True
        ):
            self._keep(name, tensor.detach())
        width, kind = self._net.layer_params[0][0].shape[1], KINDS[self._net.activation_name]
        product, outer = product_addresses()
        self._set(
            product=product, outer=outer,
            size=adam.flat.numel(), layers=len(table.table), critic=table.starts[1], extra=table.starts[2],
            zeros=table.zeros, partial_size=self._partial_size, most_slices=self._slices,
            work_size=self._work_size, widest=table.widest, width=width,
            kind=kind | NORMALISED if self._is_q else kind, is_q=int(self._is_q),
            gaussian=int(self._gaussian), parts=len(self._sizes), outputs=self.learner.head.outputs,
        )  # fmt: skip

    def _keep(self, name: str, array: np.ndarray | Tensor) -> None:
        """Let a word of the plan point to an array."""
        self._kept[name] = array
        address = array.data_ptr() if isinstance(array, Tensor) else array.ctypes.data
        self._plan[name] = address

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            self._plan[name] = value

    # --- work -----------------------------------------------------------------------------------------------------

    def pack(self) -> None:
        """Read the present weights."""
        self._run(PACK, int(self._plan["tasks"][0]))

    def _run(self, command: int, tasks: int) -> None:
        self.team.run(self._entries[command], self.address, command, tasks)

    def values(self, features: Tensor) -> Tensor:
        """The critic's values of features [rows, width]. `pack` comes before it."""
        rows, out = len(features), torch.empty(len(features))
        self._keep("features", features.contiguous())
        self._keep("values_out", out)
        self._set(rows=rows)
        self._run(VALUES, -(-rows // self._block))
        return out

    def outputs(self, features: np.ndarray) -> np.ndarray:
        """The actor's outputs of features [rows, width] of float32. A row's do not depend on other rows."""
        rows = len(features)
        out, tasks = np.empty((rows, self.learner.head.outputs), np.float32), max(1, min(TASKS, rows // ROWS_TO_SHARE))
        self._keep("features", features)
        self._keep("values_out", out)
        self._set(rows=rows, act_tasks=tasks)
        self._run(ACT, tasks)
        return out

    def set_samples(self, features: Tensor, samples: Samples, actions: Tensor, masks: Tensor | None) -> None:
        """The rows to learn from, as one batch each."""
        self._keep("features", features.contiguous())
        for name in ("log_probs", "advantages", "values", "returns"):
            # Values of actions have returns alone; compiled code reads no others of them.
            self._keep(name, samples.get(name, samples["returns"]).reshape(-1).contiguous())
        self._keep("actions", actions.contiguous())
        self._set(total=len(features), masks=0)
        if masks is not None:
            self._keep("masks", masks.reshape(len(features), -1).contiguous())

    def set_numbers(self, clip: float, normalise: bool) -> None:
        """The options of an update."""
        options, adam = self.learner.options, self.learner.adam
        weights = (0.0, 0.0, None) if self._is_q else (options.entropy, options.value_weight, options.clip_values)
        limit = math.inf if weights[2] is None else weights[2]
        max_norm = math.inf if options.max_grad_norm is None else options.max_grad_norm
        rate, steps = float(adam.learning_rate), float(adam.steps)
        self._numbers[0] = clip, *weights[:2], limit, rate, adam.eps, max_norm, steps
        self._set(normalise=int(normalise))

    def epochs(self, orders: Tensor, minibatch: int) -> Tensor:
        """A gradient step on every minibatch of so many rows, in each of the orders [epochs, rows]; returns the metrics
        of the last one of each epoch."""
        self._set_order(orders, minibatch)
        metrics = np.zeros((len(orders), METRICS))
        self.learner.adam.steps += run_epochs(self.team.address, self._entries, self.address, metrics)
        return torch.from_numpy(metrics.astype(np.float32))

    def gradient(self, order: Tensor) -> Tensor:
        """Only the gradient of one minibatch, of these rows; returns its metrics."""
        self._set_order(order[None], len(order))
        slices = min(self._slices, -(-len(order) // self._block))
        self._set(begin=0, count=len(order), slices=slices)
        self._run(STATS, 1)
        gradient_step(self.team.address, self._entries, self.address)
        write_metrics(self.address, self._metrics)
        return torch.from_numpy(self._metrics.astype(np.float32))

    def _set_order(self, orders: Tensor, minibatch: int) -> None:
        self._keep("order", orders)
        self._keep("moments", np.zeros((-(-orders.shape[1] // minibatch), 2)))
        self._set(minibatch=minibatch)
