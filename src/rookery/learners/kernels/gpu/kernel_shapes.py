"""What the kernels are compiled for: sizes of a policy's networks, its head, and where its parameters lie."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from rookery.learners.heads import BernoulliHead, CategoricalHead, GaussianHead, Head, MultiCategoricalHead
from rookery.learners.kernels.gpu.triton_support import interpreting, padded
from rookery.learners.networks import ACTIVATIONS, MLP, networks_of

HEAD_KINDS: dict[type[Head], str] = {
    CategoricalHead: "categorical",
    MultiCategoricalHead: "categorical",
    BernoulliHead: "bernoulli",
    GaussianHead: "gaussian",
}
PRECISIONS = {"auto": "bf16", "bf16": "bf16", "tf32": "tf32", "float32": "ieee"}
MOST_HIDDEN = 3  # hidden layers
MOST_PARTS = 16  # choices of a MultiDiscrete space


@dataclass(frozen=True)
class HeadShape:
    """How outputs become actions; `parts` are the sizes of discrete choices."""

    kind: str
    outputs: int
    actions: int  # numbers in one action
    parts: tuple[int, ...]
    starts: tuple[int, ...]  # of each choice, as the env counts

    @property
    def part_at(self) -> tuple[int, ...]:
        """The first output of each part; after the last, the number of outputs."""
        return tuple(sum(self.parts[:k]) for k in range(len(self.parts) + 1))

    @property
    def is_shifted(self) -> bool:
        """Whether the env's actions are other numbers than the stored ones."""
        return self.kind != "categorical" or any(self.starts)


@dataclass(frozen=True)
class NetShape:
    """Two perceptrons of the same hidden widths, actor and critic, in one vector of parameters; or one, which gives the
    values of actions and is layer-normalised (`is_q`). Sizes with a `p` are those of tiles, padded with zeros."""

    inputs: int
    hidden: tuple[int, ...]
    head: HeadShape
    activation: str
    precision: str
    approximate: bool  # whether tanh is that of the hardware, as exact as bf16
    actor_at: int
    critic_at: int
    log_std_at: int  # of a Gaussian head; else 0
    parameters: int
    is_q: bool = False

    @property
    def outputs(self) -> int:
        return self.head.outputs

    @property
    def depth(self) -> int:
        return len(self.hidden)

    @property
    def p_inputs(self) -> int:
        """With a column to spare: see `load_inputs`."""
        return padded(self.inputs + 1)

    @property
    def p_outputs(self) -> int:
        return padded(self.outputs)

    @property
    def p_hidden(self) -> tuple[int, ...]:
        return tuple(padded(width) for width in self.hidden)

    @property
    def is_wide(self) -> bool:
        """Whether gradients of the second of two hidden layers exceed the registers."""
        return self.depth == 2 and self.p_hidden[0] * self.p_hidden[1] > 128 * 128

    @property
    def columns(self) -> int:
        """Columns of the second layer that are at hand at once, if it is wide."""
        return min(64, self.p_hidden[1])

    @property
    def layer_at(self) -> tuple[int, ...]:
        """Where each layer's weights begin in a network's parameters; biases follow the weights."""
        widths = (self.inputs, *self.hidden)
        sizes = [(a + 1) * b for a, b in pairwise(widths)]
        return tuple(sum(sizes[:k]) for k in range(len(sizes) + 1))


@dataclass(frozen=True)
class RecordShape:
    """A sample of a rollout as one row of numbers, so that reading it in shuffled order costs few memory sectors."""

    features: int
    actions: int
    masks: int  # 0 or one number for each choice
    old_values: bool

    @property
    def masks_at(self) -> int:
        return self.features + self.actions

    @property
    def log_prob_at(self) -> int:
        """Its place; advantage, return and old value follow."""
        return self.masks_at + self.masks

    @property
    def stride(self) -> int:
        """Numbers in a row: a multiple of a sector of 32 bytes."""
        return -(-(self.log_prob_at + 3 + self.old_values) // 8) * 8


@dataclass(frozen=True)
class ScratchShape:
    """What the kernels for wide layers keep of each sample and network: activations and the loss's gradients by them.
    Places are those of a part's first column."""

    hidden_at: tuple[int, int]
    back_at: tuple[int, int, int]  # of both hidden layers and the outputs
    before_at: int  # of the second layer before its activation, where its derivative needs that
    keeps_before: bool
    width: int


def scratch_shape(net: NetShape) -> ScratchShape:
    """Parts side by side."""
    first, second = net.p_hidden
    keeps_before = net.activation in ("silu", "gelu", "elu")
    back = 2 * first + second
    before = back + second + net.p_outputs
    return ScratchShape(
        (0, first), (first + second, back, back + second), before, keeps_before, before + second * keeps_before
    )


def shared_memory(net: NetShape) -> int:
    """About how many bytes on the chip the kernels of a gradient take at most: weights lie there twice, as they are and
    transposed, beside tiles of samples."""
    widths = (net.p_inputs, *net.p_hidden, net.p_outputs)
    if net.is_wide:
        widths = (net.p_inputs, net.p_hidden[0], net.columns, net.p_outputs)
    size = sum(a * b for a, b in pairwise(widths)) * (2 if net.precision == "bf16" else 4)
    transposes = net.precision == "bf16" or (net.precision == "tf32" and not net.is_wide)
    return int(size * (2.1 if transposes else 1.5)) + 20_000


def head_shape(head: Any) -> HeadShape:
    """The shape of a head of `HEAD_KINDS`."""
    kind, actions = HEAD_KINDS[type(head)], max(1, torch.Size(head.shape).numel())
    if isinstance(head, MultiCategoricalHead):
        return HeadShape(kind, head.outputs, actions, tuple(head.sizes), tuple(head.starts.flatten().tolist()))
    if isinstance(head, CategoricalHead):
        return HeadShape(kind, head.outputs, actions, (head.outputs,), (head.start,))
    return HeadShape(kind, head.outputs, actions, (), ())


def net_shape(learner: Any) -> NetShape:
    """The shape of a learner's policy, whose parameters are views of its optimizer's vector."""
    policy, flat = learner.policy, learner.adam.flat

    def offset(parameter: torch.Tensor) -> int:
        return (parameter.data_ptr() - flat.data_ptr()) // 4

    precision = PRECISIONS[learner.options.precision]
    log_std = getattr(learner.head, "log_std", None)
    first, *others = networks_of(policy)
    return NetShape(
        inputs=policy.encoder.width,
        hidden=hidden_widths(first),
        head=head_shape(learner.head),
        activation=first.activation_name,
        precision=precision,
        approximate=precision == "bf16" and not interpreting() and torch.version.hip is None,
        actor_at=offset(first.layer_params[0][0]),
        critic_at=offset(others[0].layer_params[0][0]) if others else 0,
        log_std_at=0 if log_std is None else offset(log_std),
        parameters=flat.numel(),
        is_q=not others,
    )


def hidden_widths(net: MLP) -> tuple[int, ...]:
    """The widths of a network's hidden layers."""
    return tuple(len(bias) for _, bias in net.layer_params[:-1])


def has_known_shape(learner: Any) -> bool:
    """Whether kernels can be compiled for a learner's policy: perceptrons of the same hidden widths, after an encoder
    that does not learn."""
    policy, head = learner.policy, learner.head
    if policy.memory_size or policy.encoder.is_trained or type(head) not in HEAD_KINDS:
        return False
    nets = networks_of(policy)
    if not all(type(net) is MLP and net.activation_name in ACTIVATIONS for net in nets):
        return False
    if any(hidden_widths(net) != hidden_widths(nets[0]) for net in nets):
        return False
    parts = getattr(head, "sizes", ())
    return 1 <= len(hidden_widths(nets[0])) <= MOST_HIDDEN and len(parts) <= MOST_PARTS
