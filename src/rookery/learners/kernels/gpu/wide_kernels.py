"""Triton kernels of PPO's gradient for two hidden layers whose gradients exceed the registers.

A first kernel does forward, loss and backward of a tile of samples, with the weights of the second layer in chunks of
columns, and writes activations and their gradients to memory. A second one multiplies these: each program sums one
block of a layer's gradient over a share of the samples, into a row of its own as in `gradient_kernels.py`.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl

from rookery.learners.kernels.gpu.gradient_kernels import advantage_scale, output_gradient, store_sums
from rookery.learners.kernels.gpu.policy_kernels import activate, load_block, load_layer, product, slope


@triton.jit
def section(scratch, net, rows, row, AT: tl.constexpr, WIDTH: tl.constexpr, SCRATCH: tl.constexpr):
    """Pointers to each row of a part of the scratch memory, which has [rows, width] for each part of each network."""
    start = net.to(tl.int64) * SCRATCH.width * rows + AT * rows.to(tl.int64)
    return scratch + start + row.to(tl.int64) * WIDTH


@triton.jit(do_not_specialize=["first", "count", "epoch", "rows"])
def wide_pass(
    records, order, flat, scratch, parts, moments, stopped, clip_range, first, count, epoch, rows, entropy_weight,
    value_weight, value_limit, NET: tl.constexpr, RECORD: tl.constexpr, SCRATCH: tl.constexpr,
    NORMALISE: tl.constexpr, CHUNKS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    STATISTICS: tl.constexpr,
):  # fmt: skip
    """Activations of one minibatch and the loss's gradients by them, in `scratch`; sums of the losses and the gradient
    by log_std in the program's part. Grid: programs, networks (2)."""
    if tl.load(stopped + epoch) == 0:
        program, net, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
        clip = tl.load(clip_range)
        mean, scale = advantage_scale(moments, count, CHUNKS, NORMALISE)
        IN: tl.constexpr = NET.p_inputs
        OUT: tl.constexpr = NET.p_outputs
        H1: tl.constexpr = NET.p_hidden[0]
        H2: tl.constexpr = NET.p_hidden[1]
        at = tl.where(net == 0, NET.actor_at, NET.critic_at)
        outputs = tl.where(net == 0, NET.outputs, 1)
        second, last = flat + at + NET.layer_at[1], flat + at + NET.layer_at[2]
        w1, b1 = load_layer(flat + at, NET.hidden[0], NET.inputs, IN, H1)
        o, k, j = tl.arange(0, OUT), tl.arange(0, IN), tl.arange(0, COLUMNS)
        bo = tl.load(last + outputs * NET.hidden[1] + o, mask=o < outputs, other=0.0)
        log_std_sum = tl.zeros((OUT,), tl.float32)
        kl_sum, loss_sum = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
        entropy_sum = tl.zeros((BLOCK,), tl.float32)
        for tile in range(program, tl.cdiv(count, BLOCK), programs):
            m = tile * BLOCK + tl.arange(0, BLOCK)
            inside = m < count
            sample = tl.load(order + first + m, mask=inside, other=0)
            record = records + sample.to(tl.int64) * RECORD.stride
            x = tl.load(record[:, None] + k[None, :], mask=inside[:, None] & (k[None, :] < NET.inputs), other=0.0)
            z1 = product(x, w1, NET) + b1[None, :]
            h1 = activate(z1, NET)
            h1_rows = section(scratch, net, rows, m, SCRATCH.hidden_at[0], H1, SCRATCH)
            h2_rows = section(scratch, net, rows, m, SCRATCH.hidden_at[1], H2, SCRATCH)
            z2_rows = section(scratch, net, rows, m, SCRATCH.before_at, H2, SCRATCH)
            d1_rows = section(scratch, net, rows, m, SCRATCH.back_at[0], H1, SCRATCH)
            d2_rows = section(scratch, net, rows, m, SCRATCH.back_at[1], H2, SCRATCH)
            do_rows = section(scratch, net, rows, m, SCRATCH.back_at[2], OUT, SCRATCH)
            i = tl.arange(0, H1)
            tl.store(h1_rows[:, None] + i[None, :], h1, mask=inside[:, None])
            out = tl.zeros((BLOCK, OUT), tl.float32) + bo[None, :]
            for start in range(0, H2, COLUMNS):
                w2, b2 = load_block(second, start, NET.hidden[1], NET.hidden[0], H1, COLUMNS)
                z2 = product(h1, w2, NET) + b2[None, :]
                h2 = activate(z2, NET)
                tl.store(h2_rows[:, None] + start + j[None, :], h2, mask=inside[:, None])
                if SCRATCH.keeps_before:
                    tl.store(z2_rows[:, None] + start + j[None, :], z2, mask=inside[:, None])
                inner = (start + j[:, None] < NET.hidden[1]) & (o[None, :] < outputs)
                wo = tl.load(last + o[None, :] * NET.hidden[1] + start + j[:, None], mask=inner, other=0.0)
                out += product(h2, wo, NET)
            grad, log_std_grad, kl, loss, entropy = output_gradient(
                out,
                record,
                inside,
                mean,
                scale,
                clip,
                entropy_weight,
                value_weight,
                value_limit,
                net,
                flat,
                NET,
                RECORD,
            )
            kl_sum += kl
            loss_sum += loss
            entropy_sum += entropy
            if NET.head.kind == "gaussian":
                log_std_sum += tl.sum(log_std_grad, 0)
            tl.store(do_rows[:, None] + o[None, :], grad, mask=inside[:, None])
            tl.debug_barrier()  # other threads wrote what is read now
            back = tl.zeros((BLOCK, H1), tl.float32)
            for start in range(0, H2, COLUMNS):
                w2, b2 = load_block(second, start, NET.hidden[1], NET.hidden[0], H1, COLUMNS)
                h2 = tl.load(h2_rows[:, None] + start + j[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
                z2 = h2
                if SCRATCH.keeps_before:
                    z2 = tl.load(z2_rows[:, None] + start + j[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
                inner = (start + j[:, None] < NET.hidden[1]) & (o[None, :] < outputs)
                wo = tl.load(last + o[None, :] * NET.hidden[1] + start + j[:, None], mask=inner, other=0.0)
                back2 = product(grad, tl.trans(wo), NET) * slope(z2, h2, NET)
                tl.store(d2_rows[:, None] + start + j[None, :], back2, mask=inside[:, None])
                back += product(back2, tl.trans(w2), NET)
            tl.store(d1_rows[:, None] + i[None, :], back * slope(z1, h1, NET), mask=inside[:, None])
        share = 1.0 / count
        part = parts + program * (NET.parameters + STATISTICS)
        store_sums(part, log_std_sum, kl_sum, loss_sum, entropy_sum, share, net, NET)


@triton.jit(do_not_specialize=["first", "count", "epoch", "rows"])
def weight_gradients(
    records, order, scratch, parts, stopped, first, count, epoch, rows, NET: tl.constexpr, RECORD: tl.constexpr,
    SCRATCH: tl.constexpr, LAYER: tl.constexpr, INPUTS: tl.constexpr, P_INPUTS: tl.constexpr,
    P_OUTPUTS: tl.constexpr, BLOCK: tl.constexpr, SIDE_IN: tl.constexpr, SIDE_OUT: tl.constexpr,
    STATISTICS: tl.constexpr,
):  # fmt: skip
    """The gradient of one layer's weights and biases over a share of a minibatch. Grid: blocks of the weights, shares,
    networks (2)."""
    if tl.load(stopped + epoch) == 0:
        block, share, net = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        BLOCKS_OUT: tl.constexpr = P_OUTPUTS // SIDE_OUT
        i = (block // BLOCKS_OUT) * SIDE_IN + tl.arange(0, SIDE_IN)
        o = (block % BLOCKS_OUT) * SIDE_OUT + tl.arange(0, SIDE_OUT)
        weight, bias = tl.zeros((SIDE_IN, SIDE_OUT), tl.float32), tl.zeros((SIDE_OUT,), tl.float32)
        for start in range(share * BLOCK, count, tl.num_programs(1) * BLOCK):
            m = start + tl.arange(0, BLOCK)
            inside = m < count
            if LAYER == 0:
                sample = tl.load(order + first + m, mask=inside, other=0)
                source = records + sample.to(tl.int64) * RECORD.stride
                x = tl.load(source[:, None] + i[None, :], mask=inside[:, None] & (i[None, :] < INPUTS), other=0.0)
            else:
                source = section(scratch, net, rows, m, SCRATCH.hidden_at[LAYER - 1], P_INPUTS, SCRATCH)
                x = tl.load(source[:, None] + i[None, :], mask=inside[:, None], other=0.0)
            target = section(scratch, net, rows, m, SCRATCH.back_at[LAYER], P_OUTPUTS, SCRATCH)
            grad = tl.load(target[:, None] + o[None, :], mask=inside[:, None], other=0.0)
            weight += product(tl.trans(x), grad, NET)
            bias += tl.sum(grad.to(tl.float32), 0)
        at = tl.where(net == 0, NET.actor_at, NET.critic_at) + NET.layer_at[LAYER]
        outputs = tl.where(net == 0, NET.outputs, 1)
        if NET.depth > LAYER:
            outputs = NET.hidden[LAYER]
        part = parts + share * (NET.parameters + STATISTICS) + at
        real = (i[:, None] < INPUTS) & (o[None, :] < outputs)
        tl.store(part + o[None, :] * INPUTS + i[:, None], weight / count, mask=real)
        if block // BLOCKS_OUT == 0:
            tl.store(part + outputs * INPUTS + o, bias / count, mask=o < outputs)
