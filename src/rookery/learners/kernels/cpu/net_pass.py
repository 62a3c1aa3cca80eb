"""Passes of batches through perceptrons, and steps of Adam, on a team of threads: memory, and the jobs that fill it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.kernels.cpu import layer_table as places
from rookery.learners.kernels.cpu import pass_tasks as words
from rookery.learners.kernels.cpu.layer_table import Layers, LayerTable
from rookery.learners.kernels.cpu.pass_tasks import JOBS, SCRATCH, new_plan, pass_entries
from rookery.learners.kernels.cpu.product_tiles import LANES, ROWS, padded
from rookery.learners.kernels.cpu.slice_team import SliceTeam

BLOCK = 32  # rows of a batch that a task takes through a net; a multiple of ROWS
CHUNK = 16  # rows of a weight's gradient that a task computes
SAME_SETS = 64  # float32 numbers: rows apart by a multiple of it fall on the same few lines of a cache
Job = list[int]
Jobs = np.ndarray


def row_stride(columns: int) -> int:
    """Numbers between two rows of a matrix, such that a column's numbers lie on different lines of a cache."""
    size = padded(columns, LANES)
    return size + 16 if size % SAME_SETS == 0 else size


def zero_matrix(rows: int, columns: int) -> Tensor:
    """Memory for a batch: whole tiles of rows, each of whole vectors. What lies beyond the batch stays zero."""
    return torch.zeros(padded(rows, ROWS), row_stride(columns))


class PackedNets:
    """Copies of the weights of perceptrons, laid out for products, until the weights change.

    Args:
        nets: The layers of each, as (weight [outputs, inputs], bias).
        flat: The vector of all parameters.
        backward: Whether gradients pass through them.
    """

    def __init__(self, nets: Sequence[Layers], flat: Tensor, backward: bool = True) -> None:
        self.nets, self.flat = nets, flat.detach()
        self.table = LayerTable(nets, self.flat, BLOCK, backward=backward)
        self.packed = torch.zeros(self.table.packed_size)
        origin, table = self.packed.data_ptr(), self.table
        row = [0] * words.JOB_SIZE
        row[: words.SHARE] = table.table.ctypes.data, len(table.table), self.flat.data_ptr(), origin
        jobs = np.array([row] * words.SHARES, np.int64)
        jobs[:, words.SHARE] = np.arange(words.SHARES)
        self.pack_jobs = jobs
        self.zeros = origin + 4 * table.zeros

    def layer_row(self, member: int, k: int) -> np.ndarray:
        """The places of a layer of a net."""
        return self.table.table[self.table.starts[member] + k]


class NetPass:
    """A batch on its way through one net.

    Args:
        nets, member: Which net.
        kind: Its activation.
        inputs: Memory from `zero_matrix` for the inputs; passes may share it.
        rows: The size of the batch.
        backward: Whether there will be gradients.
        to_inputs: Whether gradients continue to the inputs.
    """

    def __init__(
        self, nets: PackedNets, member: int, kind: int, inputs: Tensor, rows: int, backward: bool = True,
        to_inputs: bool = False,
    ) -> None:  # fmt: skip
        self.layers = list(nets.nets[member])
        widths = [self.layers[0][0].shape[1], *(len(bias) for _, bias in self.layers)]
        self._values = [inputs, *(zero_matrix(rows, width) for width in widths[1:])]
        self._grads = [zero_matrix(rows, width) if backward else None for width in widths]
        if not to_inputs:
            self._grads[0] = None
        self._ones = torch.ones(len(inputs))
        self._nets = nets  # whose copies of the weights the jobs point to
        self._table = np.array([self._row(nets, member, k) for k in range(len(self.layers))], np.int64)
        self.outputs = self._values[-1][:rows, : widths[-1]]
        if backward:
            self.output_grads = self._grads[-1][:rows, : widths[-1]]  # type: ignore[index]
        if to_inputs:
            self.input_grads = self._grads[0][:rows, : widths[0]]  # type: ignore[index]
        self.jobs = [self._block(kind, first) for first in range(0, len(inputs), BLOCK)]

    def _row(self, nets: PackedNets, member: int, k: int) -> list[int]:
        place, origin = nets.layer_row(member, k), nets.packed.data_ptr()
        outputs, inputs = self.layers[k][0].shape
        copies = [origin + 4 * int(place[column]) for column in (places.PACKED, places.PACKED_BIAS, places.BACKWARD)]
        return [
            self._values[k].data_ptr(), row_stride(inputs), inputs, self._values[k + 1].data_ptr(), row_stride(outputs),
            outputs, *copies, _address(self._grads[k + 1]), _address(self._grads[k]),
        ]  # fmt: skip

    def _block(self, kind: int, first: int) -> Job:
        rows = min(BLOCK, len(self._values[0]) - first)
        return _job(self._table.ctypes.data, len(self._table), kind, self._nets.zeros, first, rows)

    # --- the gradients of its parameters --------------------------------------------------------------------------

    def weight_jobs(self) -> list[Job]:
        """Fill the gradients of all weights and biases, once those at all outputs are there."""
        return [job for k in range(len(self.layers)) for job in (*self._weight_jobs(k), self._bias_job(k))]

    def _weight_jobs(self, k: int) -> list[Job]:
        weight = self.layers[k][0]
        assert weight.grad is not None
        grads, came, target = self._grads[k + 1], self._values[k], weight.grad
        assert grads is not None
        left, right, (count, columns), (down, across) = grads, came, weight.shape, target.stride()
        if (across > 1 and columns >= ROWS) or count < ROWS:  # the other way round: what is computed lies as its target
            left, right, count, columns, down, across = came, grads, columns, count, across, down
        return [
            _job(
                left.data_ptr() + 4 * first, left.stride(0), right.data_ptr(), right.stride(0), len(left),
                min(CHUNK, count - first), columns, target.data_ptr() + 4 * first * down, down, across,
                self.scratch_size,
            )
            for first in range(0, count, CHUNK)
        ]  # fmt: skip

    def _bias_job(self, k: int) -> Job:
        """The sum of the gradients at the outputs, as a product with ones."""
        grads, bias = self._grads[k + 1], self.layers[k][1]
        assert grads is not None and bias.grad is not None
        return _job(
            self._ones.data_ptr(), 1, grads.data_ptr(), grads.stride(0), len(grads), 1, len(bias),
            bias.grad.data_ptr(), 0, 1, self.scratch_size,
        )  # fmt: skip

    @property
    def scratch_size(self) -> int:
        """Numbers of memory that a thread needs for its part of a gradient."""
        widest = max(size for weight, _ in self.layers for size in weight.shape)
        return CHUNK * padded(widest, LANES)


def _job(*numbers: int) -> Job:
    return [*numbers, *[0] * (words.JOB_SIZE - len(numbers))]


def _address(matrix: Tensor | None) -> int:
    return 0 if matrix is None else matrix.data_ptr()


def jobs_of(jobs: Iterable[Job]) -> Jobs:
    """Jobs that one command runs, in any order and at the same time."""
    return np.array(list(jobs), np.int64).reshape(-1, words.JOB_SIZE)


def block_jobs(passes: Sequence[NetPass]) -> Jobs:
    """All blocks of some passes, forward or backward."""
    return jobs_of(job for one in passes for job in one.jobs)


def gradient_jobs(passes: Sequence[NetPass]) -> Jobs:
    """The gradients of all parameters of some passes."""
    return jobs_of(job for one in passes for job in one.weight_jobs())


class PassTeam:
    """As many threads as `use` says; all numbers are the same for any number of them."""

    def __init__(self, scratch_size: int) -> None:
        """`scratch_size` is that of the widest `NetPass`."""
        self._plan, self._entries, self._scratch_size = new_plan(), pass_entries(), scratch_size
        self._threads = 1
        self._team: SliceTeam | None = None

    def use(self, threads: int) -> None:
        """Compute on so many threads from the next job on."""
        if threads != self._threads:
            self._threads, self._team = threads, None

    def run(self, command: int, jobs: Jobs) -> None:
        """Run all jobs, and wait for them."""
        if self._team is None or not self._team.usable:
            self._start()
        assert self._team is not None
        self._plan[JOBS] = jobs.ctypes.data
        self._team.run(self._entries[command], self._plan.ctypes.data, command, len(jobs))

    def _start(self) -> None:
        self._team = SliceTeam(self._threads)
        self._scratch = np.zeros(self._team.threads * self._scratch_size, np.float32)
        self._plan[SCRATCH] = self._scratch.ctypes.data

    def pack(self, *nets: PackedNets) -> None:
        """Read the present weights."""
        for some in nets:
            self.run(words.PACK, some.pack_jobs)


class TeamAdam:
    """Steps of an optimizer by a team."""

    def __init__(self, team: PassTeam, adam: Any) -> None:
        self._adam, self._team = adam, team
        self._numbers, self._squares = np.zeros(words.NUMBER_COUNT), np.zeros(words.SHARES)
        vectors = adam.flat, adam.gradient, *adam.moments
        memory = self._numbers.ctypes.data, self._squares.ctypes.data
        row = [*(vector.data_ptr() for vector in vectors), adam.flat.numel(), *memory]
        self._jobs = jobs_of([*row, part, *[0] * (words.JOB_SIZE - len(row) - 1)] for part in range(words.SHARES))

    def step(self, max_norm: float | None) -> None:
        """One step with the present gradient, clipped to `max_norm`."""
        adam = self._adam
        if adam.on_gradient is not None or adam.stop is not None:  # both are the optimizer's own affair
            adam.step(max_norm)
            return
        adam.steps += 1
        limit = math.inf if max_norm is None else max_norm
        self._numbers[:] = adam.learning_rate, adam.eps, limit, float(adam.steps)
        if max_norm is not None:
            self._team.run(words.SQUARES, self._jobs)
        self._team.run(words.ADAM, self._jobs)
