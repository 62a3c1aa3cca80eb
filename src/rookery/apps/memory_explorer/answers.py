"""The contents of a session as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.apps.memory_explorer.session import LATELY, Session, WatchedValue

SHADES = " .:-=+*#%@"[::-1]  # from dark to light


def candidates(session: Session, most: int) -> list[str]:
    """The number of remaining candidates, and the first of them."""
    search = session.search
    count = search.count
    head = f"{count:,} of {len(search.left):,} bytes left"
    if not count:
        return [f"{head}: `undo` reverts the last diff, `new` starts a new search"]
    rows = [
        f"  {at:04X} {was:3} -> {now:3}  {session.name_of(at)}".rstrip() for at, was, now in session.candidates(most)
    ]
    return [head, *rows, *(["  ..."] if count > most else [])]


def lately(session: Session, most: int) -> list[str]:
    """Bytes that changed in the last two seconds, the rarely changing ones first."""
    return [
        f"  {at:04X} {now:3}  {ago / 60:.1f} s ago  {session.name_of(at)}".rstrip()
        for at, now, ago in session.lately(most)
    ]


def values(session: Session) -> list[str]:
    """The watched values."""
    return [value(named) for named in session.watched.values()]


def value(named: WatchedValue) -> str:
    return f"  {named.name:<14} {named.place.address:04X} {named.now:5}"


def is_fresh(named: WatchedValue, frame: int) -> bool:
    """Whether the value has just changed."""
    return frame - named.changed_at < LATELY // 4


def dump(address: int, data: Sequence[int]) -> list[str]:
    """Bytes in rows of 16.

    >>> dump(0xC0A0, [40, 68])
    ['  C0A0  28 44']
    """
    rows = range(0, len(data), 16)
    return [f"  {address + k:04X}  {' '.join(f'{byte:02X}' for byte in data[k : k + 16])}" for k in rows]


def screen(picture: np.ndarray, shrink: int = 2) -> list[str]:
    """The screen as characters, for output without colours: each shows 2 x 4 pixels."""
    grey = picture.mean(axis=2)
    height, width = grey.shape
    blocks = grey.reshape(height // (2 * shrink), 2 * shrink, width // shrink, shrink).mean(axis=(1, 3))
    shades = (blocks / 256 * len(SHADES)).astype(int)
    return ["".join(SHADES[shade] for shade in row).rstrip() for row in shades]
