"""Triton kernels of PPO's and PQN's gradients: forward, loss and backward of a tile without leaving the chip.

A program walks over tiles with the weights of one network at hand and sums its gradients in registers. It writes them
into a row of its own, laid out as the vector of parameters and followed by sums of the losses. `sum_parts` adds these
rows up in a fixed order, so that results do not depend on timing; `adam_step` clips the gradient and makes a step.

`stopped` [epochs + 1] says of each epoch whether the update ended before it, by `target_kl`: its kernels then change
nothing. Each epoch reads its own number and writes the next one, so that no program sees a change in the middle of a
launch.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl

from rookery.learners.kernels.gpu.policy_kernels import (
    FORBIDDEN,
    activate,
    load_layer,
    policy_loss,
    product,
    slope,
    standardise,
    store_layer,
    taken,
    through_standardise,
    value_loss,
)

# Numbers after the gradients of a program: sums of kl, policy loss, value loss, entropy; of PQN returns and loss.
STATISTICS = 4


@triton.jit
def combine_moments(moments, count, CHUNKS: tl.constexpr):
    """Mean, and the inverse of the standard deviation, of the advantages of a minibatch from those of its chunks."""
    chunk = tl.arange(0, CHUNKS)
    length = (count + CHUNKS - 1) // CHUNKS
    rows = tl.minimum(tl.maximum(count - chunk * length, 0), length).to(tl.float32)
    means, squares = tl.load(moments + chunk * 2), tl.load(moments + chunk * 2 + 1)
    mean = tl.sum(means * rows, 0) / count
    spread = tl.sum(squares + rows * (means - mean) * (means - mean), 0)
    return mean, 1.0 / (tl.sqrt(spread / (count - 1)) + 1e-8)


@triton.jit
def advantage_scale(moments, count, CHUNKS: tl.constexpr, NORMALISE: tl.constexpr):
    """What is subtracted from advantages, and their factor after that."""
    mean, scale = 0.0, 1.0
    if NORMALISE:
        if count > 1:
            mean, scale = combine_moments(moments, count, CHUNKS)
    return mean, scale


@triton.jit
def output_gradient(
    out, rows, inside, mean, scale, clip, entropy_weight, value_weight, value_limit, net, flat,
    NET: tl.constexpr, RECORD: tl.constexpr,
):  # fmt: skip
    """Of a tile: the loss's gradient by the outputs of actor (net 0) or critic, by log_std, and rows of statistics."""
    column = tl.arange(0, NET.p_outputs)
    numbers = rows + RECORD.log_prob_at
    if NET.is_q:
        grad, kl, loss = q_gradient(out, rows + RECORD.features, numbers, inside, column, NET)
        log_std_grad, entropy = tl.zeros_like(grad), tl.zeros_like(loss)
    elif net == 0:
        if RECORD.masks > 0:
            choices = inside[:, None] & (column[None, :] < RECORD.masks)
            allowed = tl.load(rows[:, None] + RECORD.masks_at + column[None, :], mask=choices, other=1.0) > 0
            out = tl.where(allowed, out, FORBIDDEN)
        old = tl.load(numbers, mask=inside, other=0.0)
        advantage = (tl.load(numbers + 1, mask=inside, other=0.0) - mean) * scale
        actions = rows + RECORD.features
        grad, log_std_grad, log_ratio, loss, entropy = policy_loss(
            out, actions, inside, old, advantage, clip, entropy_weight, flat, NET
        )
        if RECORD.masks > 0:
            grad = tl.where(allowed, grad, 0.0)
        kl = tl.exp(log_ratio) - 1.0 - log_ratio
    else:
        values = tl.sum(tl.where(column[None, :] == 0, out, 0.0), 1)
        returns = tl.load(numbers + 2, mask=inside, other=0.0)
        old = returns
        if RECORD.old_values:
            old = tl.load(numbers + 3, mask=inside, other=0.0)
        loss, error = value_loss(values, returns, old, value_limit, RECORD.old_values)
        error = tl.where(inside, error * value_weight, 0.0)
        grad = tl.where(column[None, :] == 0, error[:, None], 0.0)
        log_std_grad, kl, entropy = tl.zeros_like(grad), tl.zeros_like(loss), tl.zeros_like(loss)
    return grad, log_std_grad, tl.where(inside, kl, 0.0), tl.where(inside, loss, 0.0), tl.where(inside, entropy, 0.0)


@triton.jit
def q_gradient(out, actions, numbers, inside, column, NET: tl.constexpr):
    """The gradient of half the squared error of the values of the actions taken, the returns, and that loss."""
    chosen = taken(actions, inside, column, NET)
    returns = tl.load(numbers + 2, mask=inside, other=0.0)
    error = tl.where(inside, tl.sum(chosen * out, 1) - returns, 0.0)
    return chosen * error[:, None], returns, 0.5 * error * error


@triton.jit
def find_records(records, order, m, count, RECORD: tl.constexpr):
    """Pointers to the records of the samples `m` of a minibatch."""
    return records + tl.load(order + m, mask=m < count, other=0).to(tl.int64) * RECORD.stride


@triton.jit
def load_inputs(rows, inside, NET: tl.constexpr):
    """Features [rows, padded inputs] of records. The column after them is 1, so that its product with a gradient is
    that of the biases."""
    k = tl.arange(0, NET.p_inputs)
    other = tl.where(k == NET.inputs, 1.0, 0.0)[None, :]
    return tl.load(rows[:, None] + k[None, :], mask=inside[:, None] & (k[None, :] < NET.inputs), other=other)


@triton.jit
def store_first_layer(layer, gradient, NET: tl.constexpr):
    """Gradients of the first layer, [padded inputs, hidden], with those of the biases in the row after them."""
    h, k = tl.arange(0, NET.p_hidden[0]), tl.arange(0, NET.p_inputs)
    inside = (h[None, :] < NET.hidden[0]) & (k[:, None] < NET.inputs)
    tl.store(layer + h[None, :] * NET.inputs + k[:, None], gradient, mask=inside)
    bias = tl.sum(tl.where(k[:, None] == NET.inputs, gradient, 0.0), 0)
    tl.store(layer + NET.hidden[0] * NET.inputs + h, bias, mask=h < NET.hidden[0])


@triton.jit
def store_sums(part, log_std_sum, kl_sum, loss_sum, entropy_sum, share, net, NET: tl.constexpr):
    """The means of the losses, and the gradient by log_std, in a program's part."""
    sums = part + NET.parameters
    if net == 0:
        if NET.head.kind == "gaussian":
            o = tl.arange(0, NET.p_outputs)
            tl.store(part + NET.log_std_at + o, log_std_sum * share, mask=o < NET.outputs)
        tl.store(sums, tl.sum(kl_sum, 0) * share)
        tl.store(sums + 1, tl.sum(loss_sum, 0) * share)
        tl.store(sums + 3, tl.sum(entropy_sum, 0) * share)
    else:
        tl.store(sums + 2, tl.sum(loss_sum, 0) * share)


@triton.jit(do_not_specialize=["first", "count", "epoch"])
def gradients(
    records, order, flat, parts, moments, stopped, clip_range, first, count, epoch, entropy_weight, value_weight,
    value_limit, NET: tl.constexpr, RECORD: tl.constexpr, NORMALISE: tl.constexpr, CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr, STATISTICS: tl.constexpr,
):  # fmt: skip
    """Gradients of one minibatch: rows `first` to `first + count` of `order`. Grid: programs, networks (2)."""
    if tl.load(stopped + epoch) == 0:
        program, net, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
        clip = tl.load(clip_range)
        mean, scale = advantage_scale(moments, count, CHUNKS, NORMALISE)
        IN: tl.constexpr = NET.p_inputs
        OUT: tl.constexpr = NET.p_outputs
        H1: tl.constexpr = NET.p_hidden[0]
        TOP: tl.constexpr = NET.p_hidden[NET.depth - 1]
        at = tl.where(net == 0, NET.actor_at, NET.critic_at)
        outputs = tl.where(net == 0, NET.outputs, 1)
        w1, b1 = load_layer(flat + at, NET.hidden[0], NET.inputs, IN, H1)
        g1 = tl.zeros((IN, H1), tl.float32)  # with the biases' gradient in a row
        if NET.depth >= 2:
            H2: tl.constexpr = NET.p_hidden[1]
            w2, b2 = load_layer(flat + at + NET.layer_at[1], NET.hidden[1], NET.hidden[0], H1, H2)
            g2, gb2 = tl.zeros((H1, H2), tl.float32), tl.zeros((H2,), tl.float32)
        if NET.depth >= 3:
            H3: tl.constexpr = NET.p_hidden[2]
            w3, b3 = load_layer(flat + at + NET.layer_at[2], NET.hidden[2], NET.hidden[1], H2, H3)
            g3, gb3 = tl.zeros((H2, H3), tl.float32), tl.zeros((H3,), tl.float32)
        last = flat + at + NET.layer_at[NET.depth]
        wo, bo = load_layer(last, outputs, NET.hidden[NET.depth - 1], TOP, OUT)
        go, gbo = tl.zeros((TOP, OUT), tl.float32), tl.zeros((OUT,), tl.float32)
        log_std_sum = tl.zeros((OUT,), tl.float32)
        kl_sum, loss_sum = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
        entropy_sum = tl.zeros((BLOCK,), tl.float32)
        m = program * BLOCK + tl.arange(0, BLOCK)
        rows = find_records(records, order + first, m, count, RECORD)
        x = load_inputs(rows, m < count, NET)
        for _ in range(program, tl.cdiv(count, BLOCK), programs):
            inside = m < count
            m += programs * BLOCK
            # Of the next tile: memory answers while this one is computed.
            next_rows = find_records(records, order + first, m, count, RECORD)
            z1 = product(x, w1, NET) + b1[None, :]
            if NET.is_q:
                z1, factor1 = standardise(z1, NET.hidden[0])
            h1 = activate(z1, NET)
            top = h1
            if NET.depth >= 2:
                z2 = product(h1, w2, NET) + b2[None, :]
                if NET.is_q:
                    z2, factor2 = standardise(z2, NET.hidden[1])
                h2 = activate(z2, NET)
                top = h2
            if NET.depth >= 3:
                z3 = product(h2, w3, NET) + b3[None, :]
                if NET.is_q:
                    z3, factor3 = standardise(z3, NET.hidden[2])
                h3 = activate(z3, NET)
                top = h3
            next_x = load_inputs(next_rows, m < count, NET)
            out = product(top, wo, NET) + bo[None, :]
            grad, log_std_grad, kl, loss, entropy = output_gradient(
                out, rows, inside, mean, scale, clip, entropy_weight, value_weight, value_limit, net, flat, NET, RECORD
            )  # fmt: skip
            kl_sum += kl
            loss_sum += loss
            entropy_sum += entropy
            if NET.head.kind == "gaussian":
                log_std_sum += tl.sum(log_std_grad, 0)
            go += product(tl.trans(top), grad, NET)
            gbo += tl.sum(grad, 0)
            back = product(grad, tl.trans(wo), NET)
            if NET.depth >= 3:
                back3 = back * slope(z3, h3, NET)
                if NET.is_q:
                    back3 = through_standardise(back3, z3, factor3, NET.hidden[2])
                g3 += product(tl.trans(h2), back3, NET)
                gb3 += tl.sum(back3, 0)
                back = product(back3, tl.trans(w3), NET)
            if NET.depth >= 2:
                back2 = back * slope(z2, h2, NET)
                if NET.is_q:
                    back2 = through_standardise(back2, z2, factor2, NET.hidden[1])
                g2 += product(tl.trans(h1), back2, NET)
                gb2 += tl.sum(back2, 0)
                back = product(back2, tl.trans(w2), NET)
            back1 = back * slope(z1, h1, NET)
            if NET.is_q:
                back1 = through_standardise(back1, z1, factor1, NET.hidden[0])
            g1 += product(tl.trans(x), back1, NET)
            rows, x = next_rows, next_x
        share = 1.0 / count
        part = parts + program * (NET.parameters + STATISTICS)
        store_first_layer(part + at, g1 * share, NET)
        if NET.depth >= 2:
            store_layer(part + at + NET.layer_at[1], g2 * share, gb2 * share, NET.hidden[1], NET.hidden[0], H1, H2)
        if NET.depth >= 3:
            store_layer(part + at + NET.layer_at[2], g3 * share, gb3 * share, NET.hidden[2], NET.hidden[1], H2, H3)
        final = part + at + NET.layer_at[NET.depth]
        store_layer(final, go * share, gbo * share, outputs, NET.hidden[NET.depth - 1], TOP, OUT)
        store_sums(part, log_std_sum, kl_sum, loss_sum, entropy_sum, share, net, NET)


# --- after the gradient -----------------------------------------------------------------------------------------------


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
