"""Settings that population-based training draws anew or changes a little."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rookery.studies.space.dimensions import Dimension


def drawn(dimension: Dimension, random: np.random.Generator) -> Any:
    """A value from the whole range."""
    found = dimension.distribution
    if isinstance(found, CategoricalDistribution):
        return dimension.from_param(found.choices[int(random.integers(len(found.choices)))])
    assert isinstance(found, FloatDistribution | IntDistribution)
    place = random.random()
    if found.log:
        value = math.exp(math.log(found.low) + place * (math.log(found.high) - math.log(found.low)))
    else:
        value = found.low + place * (found.high - found.low)
    return _inside(found, value)


def perturbed(dimension: Dimension, value: Any, factor: float) -> Any:
    """A number a little larger or smaller; a choice becomes the one beside it."""
    found = dimension.distribution
    if isinstance(found, CategoricalDistribution):
        choices = [dimension.from_param(choice) for choice in found.choices]
        at = choices.index(value) if value in choices else 0
        return choices[min(max(at + (1 if factor > 1 else -1), 0), len(choices) - 1)]
    assert isinstance(found, FloatDistribution | IntDistribution)
    if isinstance(found, IntDistribution) and round(value * factor) == value:
        return _inside(found, value + (1 if factor > 1 else -1))
    return _inside(found, value * factor)


def _inside(found: FloatDistribution | IntDistribution, value: float) -> Any:
    value = min(max(value, found.low), found.high)
    if found.step is not None and not found.log:
        value = found.low + round((value - found.low) / found.step) * found.step
    return round(value) if isinstance(found, IntDistribution) else float(value)
