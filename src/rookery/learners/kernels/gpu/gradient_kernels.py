"""Triton kernels of PPO's gradient: forward, loss and backward of a tile of samples without leaving the chip.

A program walks over tiles with the weights of one network at hand and sums its gradients in registers. It writes them
into a row of its own, laid out as the vector of parameters and followed by sums of the losses. `adam_kernels.py` adds
these rows up in a fixed order, so that results do not depend on timing.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl

from rookery.learners.kernels.gpu.head_kernels import FORBIDDEN, policy_loss, value_loss
from rookery.learners.kernels.gpu.perceptron_kernels import activate, load_layer, product, slope, store_layer

STATISTICS = 4  # numbers after the gradients of a program: sums of kl, policy loss, value loss, entropy


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
    if net == 0:
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
            h1 = activate(z1, NET)
            top = h1
            if NET.depth >= 2:
                z2 = product(h1, w2, NET) + b2[None, :]
                h2 = activate(z2, NET)
                top = h2
            if NET.depth >= 3:
                z3 = product(h2, w3, NET) + b3[None, :]
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
                g3 += product(tl.trans(h2), back3, NET)
                gb3 += tl.sum(back3, 0)
                back = product(back3, tl.trans(w3), NET)
            if NET.depth >= 2:
                back2 = back * slope(z2, h2, NET)
                g2 += product(tl.trans(h1), back2, NET)
                gb2 += tl.sum(back2, 0)
                back = product(back2, tl.trans(w2), NET)
            back1 = back * slope(z1, h1, NET)
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
