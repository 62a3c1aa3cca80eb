"""What the last infos of an episode say about how it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

USUAL = {"winner": "win_rate", "is_success": "success_rate", "success": "success_rate"}  # infos, and what they make up


def outcomes_of(infos: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, list[float]]:
    """Figures of the episodes that ended in this step, by name: whether they were won or succeeded, and whatever infos
    the world names in its metadata's "outcomes".

    >>> final = {"winner": np.array([1, -1, 0]), "_winner": np.array([True, True, False])}
    >>> outcomes_of({"final_info": final}, {})
    {'win_rate': [1.0, 0.0]}
    """
    final, found = infos.get("final_info"), {}
    if not final:
        return {}
    for name in (*USUAL, *metadata.get("outcomes", ())):
        if name in final:
            values = np.asarray(final[name])[np.asarray(final[f"_{name}"], bool)]
            rate = USUAL.get(name)
            found[rate or name] = [float(value == 1 if rate else value) for value in values.tolist()]
    return {name: values for name, values in found.items() if values}
