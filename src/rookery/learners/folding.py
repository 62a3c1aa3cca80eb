"""A perceptron with batch norms, as one without: with running statistics, a norm is an affine map, and the layer beside
it takes it up. The arrays may be NumPy's or torch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

EPS = 1e-3  # added to variances
Layer = tuple[Any, Any]  # weights [outputs, inputs] and biases


def folded(weights: Sequence[Any], norms: Sequence[Mapping[str, Any]], bias: Any) -> list[Layer]:
    """The layers of the plain perceptron. The first norm is that of the inputs, each other one follows a hidden layer;
    `bias` is the last layer's."""
    inputs, *hidden = norms
    scale = inputs["gain"] * (inputs["variance"] + EPS) ** -0.5
    first = weights[0] * scale, weights[0] @ (inputs["bias"] - inputs["mean"] * scale)
    starts = [first, *((weight, 0.0) for weight in weights[1:])]
    layers = [_normed(*layer, norm) for layer, norm in zip(starts, hidden, strict=False)]
    weight, before = starts[-1]
    return [*layers, (weight, before + bias)]


def _normed(weight: Any, bias: Any, norm: Mapping[str, Any]) -> Layer:
    scale = norm["gain"] * (norm["variance"] + EPS) ** -0.5
    return weight * scale[:, None], (bias - norm["mean"]) * scale + norm["bias"]
