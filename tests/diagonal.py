"""A few of the combinations of parameters, for tests marked `diagonal`, `push` or `few`.

Of the first, every value of every parameter is in one of those that a push runs; of the second, a push runs those with
the ids that are given, where others take much longer than what they tell is worth at each push; of the third, as many
as are given, from the first to the last. `make test-all` runs all combinations.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

Values = frozenset[tuple[Hashable, Hashable]]  # of one combination: which value of which parameter


def diagonal(combinations: Sequence[Values]) -> list[int]:
    """Which combinations are enough for every value to be in one: always the one with most values that are missing.

    >>> rows = [frozenset({("size", s), ("mode", m)}) for s in "ab" for m in "xyz"]
    >>> [sorted(value for _, value in rows[k]) for k in diagonal(rows)]
    [['a', 'x'], ['b', 'y'], ['a', 'z']]
    """
    missing, chosen = set().union(*combinations), []
    while missing:
        best = max(range(len(combinations)), key=lambda k: len(combinations[k] & missing))
        missing -= combinations[best]
        chosen.append(best)
    return chosen


def spread(count: int, most: int) -> list[int]:
    """As many places among `count`, the first and, of several, the last among them.

    >>> spread(10, 4)
    [0, 3, 6, 9]
    >>> spread(10, 1)
    [0]
    """
    if most == 1:
        return [0]
    return sorted({round(k * (count - 1) / (most - 1)) for k in range(most)}) if most < count else list(range(count))


def values_of(item: Any) -> Values:
    """Parameters that are given together, as rows of a list, count as one."""
    given = item.callspec.params
    together = [_names(mark.args[0]) for mark in item.iter_markers("parametrize")]
    alone = [(name,) for name in given if not any(name in names for names in together)]
    return frozenset((names, tuple(id(given[name]) for name in names)) for names in (*together, *alone))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else tuple(given)


def is_push(config: pytest.Config) -> bool:
    """Whether slow tests are left out."""
    return re.search(r"(?<!or )not slow", config.option.markexpr) is not None


@pytest.hookimpl(trylast=True)  # of those that -k and markers leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other combinations, unless slow tests run too."""
    if not is_push(config):
        return
    groups: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            groups[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for group in groups.values():
        if push := group[0].get_closest_marker("push"):
            chosen = [k for k, item in enumerate(group) if item.callspec.id in push.args]
        elif few := group[0].get_closest_marker("few"):
            chosen = spread(len(group), *few.args)
        elif group[0].get_closest_marker("diagonal"):
            chosen = diagonal([values_of(item) for item in group])
        else:
            continue
        if chosen:  # none, where somebody asked for others by their names
            left_out |= {item for k, item in enumerate(group) if k not in chosen}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
