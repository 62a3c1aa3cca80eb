"""The perceptrons of an ensemble, each by itself."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from rookery.learners.networks import EnsembleMLP

Members = list[list[tuple[Tensor, Tensor]]]


def members_of(ensemble: EnsembleMLP) -> Members:
    """The layers of each member of an ensemble, on the ensemble's own memory."""
    return [
        [
            (_member(weight, lambda part: part[k].t()), _member(bias, lambda part: part[k, 0]))  # noqa: B023
            for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True)
        ]
        for k in range(len(ensemble.weights[0]))
    ]


def _member(parameter: Tensor, part_of: Callable[[Tensor], Tensor]) -> Tensor:
    """A view of one member's part of a parameter, whose gradient is a view as well."""
    view = part_of(parameter.data)
    if parameter.grad is not None:
        view.grad = part_of(parameter.grad)
    return view
