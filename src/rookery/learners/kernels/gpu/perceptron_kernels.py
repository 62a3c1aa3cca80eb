"""Parts of Triton kernels: the layers of a perceptron, on tiles of samples.

Weights are read from the vector of all parameters, where a layer's lie as torch keeps them, [outputs, inputs]. Tiles
are padded with zeros to sizes that matrix units take; padding stays zero through every activation.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(a, b, NET: tl.constexpr):
    """A matrix product with sums in float32. Precision "ieee" is float32 throughout."""
    if NET.precision == "bf16":
        out = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    else:
        out = tl.dot(a, b, input_precision=NET.precision)
    return out


@triton.jit
def sigmoid(x):
    """Without overflow at either end."""
    e = tl.exp(-tl.abs(x))
    return tl.where(x >= 0, 1.0, e) / (1.0 + e)


@triton.jit
def tanh(x, NET: tl.constexpr):
    if NET.approximate:
        out = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        out = 2.0 * sigmoid(2.0 * x) - 1.0
    return out


@triton.jit
def activate(x, NET: tl.constexpr):
    """The activation function of hidden layers."""
    if NET.activation == "tanh":
        out = tanh(x, NET)
    elif NET.activation == "relu":
        out = tl.maximum(x, 0.0)
    elif NET.activation == "elu":
        out = tl.where(x > 0, x, tl.exp(tl.minimum(x, 0.0)) - 1.0)
    elif NET.activation == "silu":
        out = x * sigmoid(x)
    else:
        out = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    return out


@triton.jit
def slope(before, after, NET: tl.constexpr):
    """The derivative of the activation function, from its argument or its result."""
    if NET.activation == "tanh":
        out = 1.0 - after * after
    elif NET.activation == "relu":
        out = tl.where(after > 0, 1.0, 0.0)
    elif NET.activation == "elu":
        out = tl.where(before > 0, 1.0, after + 1.0)
    elif NET.activation == "silu":
        share = sigmoid(before)
        out = share * (1.0 + before * (1.0 - share))
    else:
        density = 0.3989422804014327 * tl.exp(-0.5 * before * before)
        out = 0.5 * (1.0 + tl.erf(before * 0.7071067811865476)) + before * density
    return out


@triton.jit
def load_layer(layer, outputs, INPUTS: tl.constexpr, P_INPUTS: tl.constexpr, P_OUTPUTS: tl.constexpr):
    """Weights [inputs, outputs] and biases of the layer whose parameters begin at `layer`."""
    i, o = tl.arange(0, P_INPUTS), tl.arange(0, P_OUTPUTS)
    inside = (i[:, None] < INPUTS) & (o[None, :] < outputs)
    weight = tl.load(layer + o[None, :] * INPUTS + i[:, None], mask=inside, other=0.0)
    bias = tl.load(layer + outputs * INPUTS + o, mask=o < outputs, other=0.0)
    return weight, bias


@triton.jit
def load_block(
    layer, start, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, P_INPUTS: tl.constexpr, COLUMNS: tl.constexpr
):
    """`load_layer` for the outputs from `start` on, as many as `COLUMNS`."""
    i, o = tl.arange(0, P_INPUTS), start + tl.arange(0, COLUMNS)
    inside = (i[:, None] < INPUTS) & (o[None, :] < OUTPUTS)
    weight = tl.load(layer + o[None, :] * INPUTS + i[:, None], mask=inside, other=0.0)
    bias = tl.load(layer + OUTPUTS * INPUTS + o, mask=o < OUTPUTS, other=0.0)
    return weight, bias


@triton.jit
def store_layer(layer, weight, bias, outputs, INPUTS: tl.constexpr, P_INPUTS: tl.constexpr, P_OUTPUTS: tl.constexpr):
    """Gradients of a layer, laid out as its parameters."""
    i, o = tl.arange(0, P_INPUTS), tl.arange(0, P_OUTPUTS)
    inside = (i[:, None] < INPUTS) & (o[None, :] < outputs)
    tl.store(layer + o[None, :] * INPUTS + i[:, None], weight, mask=inside)
    tl.store(layer + outputs * INPUTS + o, bias, mask=o < outputs)


@triton.jit
def hidden_layer(x, layer, NET: tl.constexpr, LAYER: tl.constexpr):
    """Activations of hidden layer `LAYER` from those before it."""
    if LAYER == 0:
        weight, bias = load_layer(layer, NET.hidden[0], NET.inputs, NET.p_inputs, NET.p_hidden[0])
    else:
        weight, bias = load_layer(
            layer, NET.hidden[LAYER], NET.hidden[LAYER - 1], NET.p_hidden[LAYER - 1], NET.p_hidden[LAYER]
        )
    return activate(product(x, weight, NET) + bias[None, :], NET)


@triton.jit
def forward(x, net, outputs, NET: tl.constexpr):
    """The outputs [rows, padded outputs] of the network whose parameters begin at `net`."""
    top = hidden_layer(x, net, NET, 0)
    last = net + NET.layer_at[NET.depth]
    if NET.is_wide:
        out = wide_top(top, net + NET.layer_at[1], last, outputs, NET)
    else:
        out = narrow_top(top, net, last, outputs, NET)
    return out


@triton.jit
def wide_top(h1, second, last, outputs, NET: tl.constexpr):
    """The layers after the first one of two, with the second one's weights in chunks of columns."""
    COLUMNS: tl.constexpr = NET.columns
    OUT: tl.constexpr = NET.p_outputs
    o, j = tl.arange(0, OUT), tl.arange(0, COLUMNS)
    bias = tl.load(last + outputs * NET.hidden[1] + o, mask=o < outputs, other=0.0)
    out = tl.zeros((h1.shape[0], OUT), tl.float32) + bias[None, :]
    for start in range(0, NET.p_hidden[1], COLUMNS):
        w2, b2 = load_block(second, start, NET.hidden[1], NET.hidden[0], NET.p_hidden[0], COLUMNS)
        h2 = activate(product(h1, w2, NET) + b2[None, :], NET)
        inner = (start + j[:, None] < NET.hidden[1]) & (o[None, :] < outputs)
        weight = tl.load(last + o[None, :] * NET.hidden[1] + start + j[:, None], mask=inner, other=0.0)
        out += product(h2, weight, NET)
    return out


@triton.jit
def narrow_top(top, net, last, outputs, NET: tl.constexpr):
    """The layers after the first one."""
    if NET.depth >= 2:
        top = hidden_layer(top, net + NET.layer_at[1], NET, 1)
    if NET.depth >= 3:
        top = hidden_layer(top, net + NET.layer_at[2], NET, 2)
    weight, bias = load_layer(last, outputs, NET.hidden[NET.depth - 1], NET.p_hidden[NET.depth - 1], NET.p_outputs)
    return product(top, weight, NET) + bias[None, :]


@triton.jit
def load_features(rows, inside, mean, variance, NET: tl.constexpr, NORMALISE: tl.constexpr):
    """Observations [rows, padded inputs] from pointers to their rows, normalised by running statistics if asked for."""
    k = tl.arange(0, NET.p_inputs)
    columns = k < NET.inputs
    x = tl.load(rows[:, None] + k[None, :], mask=inside[:, None] & columns[None, :], other=0.0)
    x = x.to(tl.float32)
    if NORMALISE:
        shift = tl.load(mean + k, mask=columns, other=0.0).to(tl.float32)
        scale = (1.0 / tl.sqrt(tl.load(variance + k, mask=columns, other=1.0) + 1e-8)).to(tl.float32)
        x = tl.minimum(tl.maximum((x - shift[None, :]) * scale[None, :], -10.0), 10.0)
        x = tl.where(columns[None, :], x, 0.0)
    return x
