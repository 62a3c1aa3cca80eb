"""Parts of Triton kernels: the layers of a perceptron, and what `heads.py` does with its outputs, on tiles of samples.

Weights are read from the vector of all parameters, where a layer's lie as torch keeps them, [outputs, inputs]. Tiles
are padded with zeros to sizes that matrix units take; padding stays zero through every activation. Outputs are [rows,
padded outputs]; `actions` are pointers to the first number of each row's action. A categorical head may have several
parts (MultiDiscrete), each with columns of its own.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl

FORBIDDEN = tl.constexpr(-1e9)  # as in `heads.py`
LOWEST = tl.constexpr(-1e30)  # below every output
HALF_LOG_2_PI = tl.constexpr(0.9189385332046727)
HALF_LOG_2_PI_E = tl.constexpr(1.4189385332046727)


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
def standardise(x, WIDTH: tl.constexpr):
    """Layer normalisation: rows with mean 0 and variance 1 over their first columns, and the factor of each row."""
    inside = tl.arange(0, x.shape[1])[None, :] < WIDTH
    away = tl.where(inside, x - (tl.sum(x, 1) / WIDTH)[:, None], 0.0)
    factor = 1.0 / tl.sqrt(tl.sum(away * away, 1) / WIDTH + 1e-5)
    return away * factor[:, None], factor


@triton.jit
def through_standardise(back, x, factor, WIDTH: tl.constexpr):
    """The gradient at the argument of `standardise` from that at its results, `x` and `factor`."""
    inside = tl.arange(0, x.shape[1])[None, :] < WIDTH
    away = back - (tl.sum(back, 1) / WIDTH)[:, None] - x * (tl.sum(back * x, 1) / WIDTH)[:, None]
    return tl.where(inside, away * factor[:, None], 0.0)


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
    before = product(x, weight, NET) + bias[None, :]
    if NET.is_q:
        before, _ = standardise(before, NET.hidden[LAYER])
    return activate(before, NET)


@triton.jit
def state_values(x, flat, NET: tl.constexpr):
    """The critic's values [rows], or those of the best actions."""
    column = tl.arange(0, NET.p_outputs)
    if NET.is_q:
        out = forward(x, flat + NET.actor_at, NET.outputs, NET)
        values = tl.zeros((x.shape[0],), tl.float32)
        for part in tl.static_range(len(NET.head.parts)):
            within = (column >= NET.head.part_at[part]) & (column < NET.head.part_at[part + 1])
            values += tl.max(tl.where(within[None, :], out, LOWEST), 1)
    else:
        out = forward(x, flat + NET.critic_at, 1, NET)
        values = tl.sum(tl.where(column[None, :] == 0, out, 0.0), 1)
    return values


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


@triton.jit
def log_softmax(outputs, column, NET: tl.constexpr):
    """Log-probabilities of every choice, each normalised within its part; 0 in padding."""
    out = tl.zeros_like(outputs)
    for part in tl.static_range(len(NET.head.parts)):
        inside = (column >= NET.head.part_at[part]) & (column < NET.head.part_at[part + 1])
        logits = tl.where(inside[None, :], outputs, LOWEST)
        shifted = logits - tl.max(logits, 1)[:, None]
        total = tl.sum(tl.where(inside[None, :], tl.exp(shifted), 0.0), 1)
        out = tl.where(inside[None, :], shifted - tl.log(total)[:, None], out)
    return out


@triton.jit
def taken(actions, inside, column, NET: tl.constexpr):
    """Which choices were taken, 1 or 0, [rows, padded outputs]."""
    out = tl.zeros((inside.shape[0], column.shape[0]), tl.float32)
    for part in tl.static_range(len(NET.head.parts)):
        choice = tl.load(actions + part, mask=inside, other=0).to(tl.int32) + NET.head.part_at[part]
        out += tl.where(column[None, :] == choice[:, None], 1.0, 0.0)
    return out


@triton.jit
def load_actions(actions, inside, column, NET: tl.constexpr):
    """Actions with one number for each output, as float32; 0 in padding."""
    within = inside[:, None] & (column[None, :] < NET.outputs)
    return tl.load(actions[:, None] + column[None, :], mask=within, other=0).to(tl.float32)


@triton.jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def load_log_std(flat, column, NET: tl.constexpr):
    """The logarithms of a Gaussian head's standard deviations; 0 in padding."""
    return tl.load(flat + NET.log_std_at + column, mask=column < NET.outputs, other=0.0)


@triton.jit
def log_prob(outputs, actions, inside, flat, NET: tl.constexpr):
    """Log-probabilities of actions, [rows]."""
    column = tl.arange(0, NET.p_outputs)
    if NET.head.kind == "categorical":
        log_probs = log_softmax(outputs, column, NET)
        out = tl.sum(taken(actions, inside, column, NET) * log_probs, 1)
    elif NET.head.kind == "bernoulli":
        signs = load_actions(actions, inside, column, NET) * 2.0 - 1.0
        out = tl.sum(tl.where(column[None, :] < NET.outputs, log_sigmoid(outputs * signs), 0.0), 1)
    else:
        log_std = load_log_std(flat, column, NET)
        distance = (load_actions(actions, inside, column, NET) - outputs) * tl.exp(-log_std)[None, :]
        distance = tl.where(column[None, :] < NET.outputs, distance, 0.0)
        out = -0.5 * tl.sum(distance * distance, 1) - (tl.sum(log_std, 0) + HALF_LOG_2_PI * NET.outputs)
    return out


@triton.jit
def surrogate(log_ratio, advantage, clip):
    """PPO's policy loss of each row, and its derivative by the log-probability."""
    ratio = tl.exp(log_ratio)
    plain = ratio * advantage
    clipped = tl.minimum(tl.maximum(ratio, 1.0 - clip), 1.0 + clip) * advantage
    return -tl.minimum(plain, clipped), tl.where(plain <= clipped, -plain, 0.0)


@triton.jit
def entropies(probs, log_probs, column, NET: tl.constexpr):
    """The entropy of each part, written into all its columns."""
    terms = -probs * log_probs
    out = tl.zeros_like(terms)
    for part in tl.static_range(len(NET.head.parts)):
        inside = (column >= NET.head.part_at[part]) & (column < NET.head.part_at[part + 1])
        total = tl.sum(tl.where(inside[None, :], terms, 0.0), 1)
        out = tl.where(inside[None, :], total[:, None], out)
    return out


@triton.jit
def policy_loss(outputs, actions, inside, old, advantage, clip, entropy_weight, flat, NET: tl.constexpr):
    """Of each row: the gradient of PPO's policy loss with its entropy bonus by the outputs and by log_std, the
    log-ratio, the loss and the entropy."""
    column = tl.arange(0, NET.p_outputs)
    real = column[None, :] < NET.outputs
    if NET.head.kind == "categorical":
        log_probs = log_softmax(outputs, column, NET)
        probs = tl.where(real, tl.exp(log_probs), 0.0)
        chosen = taken(actions, inside, column, NET)
        log_ratio = tl.sum(chosen * log_probs, 1) - old
        loss, moved = surrogate(log_ratio, advantage, clip)
        of_part = entropies(probs, log_probs, column, NET)
        grad = moved[:, None] * (chosen - probs) + entropy_weight * probs * (log_probs + of_part)
        entropy = -tl.sum(probs * log_probs, 1)
        log_std_grad = tl.zeros_like(outputs)
    elif NET.head.kind == "bernoulli":
        bits = load_actions(actions, inside, column, NET)
        log_ratio = tl.sum(tl.where(real, log_sigmoid(outputs * (bits * 2.0 - 1.0)), 0.0), 1) - old
        loss, moved = surrogate(log_ratio, advantage, clip)
        probs = sigmoid(outputs)
        grad = moved[:, None] * (bits - probs) + entropy_weight * outputs * probs * (1.0 - probs)
        terms = probs * log_sigmoid(outputs) + (1.0 - probs) * log_sigmoid(-outputs)
        entropy = -tl.sum(tl.where(real, terms, 0.0), 1)
        log_std_grad = tl.zeros_like(outputs)
    else:
        log_std = load_log_std(flat, column, NET)
        inverse = tl.exp(-log_std)[None, :]
        distance = tl.where(real, (load_actions(actions, inside, column, NET) - outputs) * inverse, 0.0)
        total = tl.sum(log_std, 0)
        log_ratio = -0.5 * tl.sum(distance * distance, 1) - (total + HALF_LOG_2_PI * NET.outputs) - old
        loss, moved = surrogate(log_ratio, advantage, clip)
        grad = moved[:, None] * distance * inverse
        log_std_grad = moved[:, None] * (distance * distance - 1.0) - entropy_weight
        entropy = tl.zeros_like(loss) + (total + HALF_LOG_2_PI_E * NET.outputs)
    keep = inside[:, None] & real
    return tl.where(keep, grad, 0.0), tl.where(keep, log_std_grad, 0.0), log_ratio, loss, entropy


@triton.jit
def value_loss(values, returns, old, limit, CLIPPED: tl.constexpr):
    """The critic's loss of each row, and its derivative by the value. `limit` keeps values near the old ones."""
    error = values - returns
    loss = 0.5 * error * error
    if CLIPPED:
        near = old + tl.minimum(tl.maximum(values - old, -limit), limit) - returns
        worse = 0.5 * near * near
        error = tl.where((tl.abs(values - old) <= limit) | (loss >= worse), error, 0.0)
        loss = tl.maximum(loss, worse)
    return loss, error
