"""Triton kernels after the gradient: sums in a fixed order, clipping, a step of Adam in place, and the metrics.

`stopped` [epochs + 1] says of each epoch whether the update ended before it, by `target_kl`: its kernels then change
nothing. Each epoch reads its own number and writes the next one, so that no program sees a change in the middle of a
launch.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["programs", "epoch"])
def sum_parts(
    parts, gradient, sums, squares, steps, stopped, programs, epoch, PARAMETERS: tl.constexpr,
    STATISTICS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gradient and the loss's sums from the programs' parts, the sum of squares of each block of the gradient, and
    one more step. Grid: blocks of columns."""
    if tl.load(stopped + epoch) == 0:
        block = tl.program_id(0)
        total: tl.constexpr = PARAMETERS + STATISTICS
        column, row = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, ROWS)
        added = tl.zeros((ROWS, BLOCK), tl.float32)
        for start in range(0, programs, ROWS):
            inside = ((start + row)[:, None] < programs) & (column[None, :] < total)
            added += tl.load(parts + (start + row)[:, None] * total + column[None, :], mask=inside, other=0.0)
        column_sums = tl.sum(added, 0)
        is_gradient = column < PARAMETERS
        tl.store(gradient + column, column_sums, mask=is_gradient)
        tl.store(sums + column - PARAMETERS, column_sums, mask=(column >= PARAMETERS) & (column < total))
        tl.store(squares + block, tl.sum(tl.where(is_gradient, column_sums * column_sums, 0.0), 0))
        if block == 0:
            tl.store(steps, tl.load(steps) + 1.0)


@triton.jit
def bias_correction(log_beta, steps):
    """1 - beta ** steps, in double precision: for beta 0.999 single precision would lose four digits."""
    return (1.0 - tl.exp(steps.to(tl.float64) * log_beta)).to(tl.float32)


@triton.jit(do_not_specialize=["blocks", "epoch"])
def adam_step(
    flat, gradient, first, second, squares, sums, steps, rate, stopped, metrics, blocks, epoch, max_norm, eps,
    target_kl, PARAMETERS: tl.constexpr, BLOCK: tl.constexpr, P_BLOCKS: tl.constexpr, ENDS_EPOCH: tl.constexpr,
):  # fmt: skip
    """Clip the gradient and make a step. After the last minibatch of an epoch, note its metrics and whether to stop."""
    was_stopped = tl.load(stopped + epoch)
    if was_stopped == 0:
        column, block = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, P_BLOCKS)
        inside = column < PARAMETERS
        norm = tl.sqrt(tl.sum(tl.load(squares + block, mask=block < blocks, other=0.0), 0))
        grad = tl.load(gradient + column, mask=inside, other=0.0) * tl.minimum(1.0, max_norm / (norm + 1e-6))
        mean, square = tl.load(first + column, mask=inside, other=0.0), tl.load(second + column, mask=inside, other=0.0)
        mean += (grad - mean) * 0.1
        square = 0.999 * square + 0.001 * grad * grad
        tl.store(first + column, mean, mask=inside)
        tl.store(second + column, square, mask=inside)
        count = tl.load(steps)
        step_size = tl.load(rate) / bias_correction(-0.10536051565782628, count)
        spread = tl.sqrt(square) / tl.sqrt(bias_correction(-0.0010005003335835335, count)) + eps
        weight = tl.load(flat + column, mask=inside, other=0.0)
        tl.store(flat + column, weight - step_size * mean / spread, mask=inside)
        if ENDS_EPOCH:
            if tl.program_id(0) == 0:
                k = tl.arange(0, 8)
                loss = tl.load(sums + k, mask=k < 4, other=0.0)
                tl.store(metrics + epoch * 5 + k, tl.where(k < 4, loss, norm), mask=k < 5)
                kl = tl.sum(tl.where(k == 0, loss, 0.0), 0)
                tl.store(stopped + epoch + 1, (kl > target_kl).to(tl.int32))
    elif ENDS_EPOCH:
        if tl.program_id(0) == 0:
            tl.store(stopped + epoch + 1, 1)


@triton.jit
def average_metrics(metrics, stopped, means, epochs, P_EPOCHS: tl.constexpr):
    """The metrics' means over the epochs that were made."""
    epoch, k = tl.arange(0, P_EPOCHS), tl.arange(0, 8)
    made = (epoch < epochs) & (tl.load(stopped + epoch, mask=epoch < epochs, other=1) == 0)
    rows = tl.load(metrics + epoch[:, None] * 5 + k[None, :], mask=made[:, None] & (k[None, :] < 5), other=0.0)
    tl.store(means + k, tl.sum(rows, 0) / tl.sum(made.to(tl.float32), 0), mask=k < 5)
