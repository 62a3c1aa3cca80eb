"""Keys of a feed: read from the environment, and removed from every text that is shown or stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from rookery.errors import DataError

HIDDEN = "***"
SHORTEST = 4  # a shorter value is no key, and removing it would damage other words


@dataclass(frozen=True)
class Keys:
    """What authorises requests. Its repr shows no key.

    Attributes:
        names: The environment variables that hold a key, its secret and, on some exchanges, a password.
    """

    names: tuple[str, ...] = ()
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def scrub(self, text: object) -> str:
        """The text without the keys, as they are or as a part of an address."""
        shown = str(text)
        for value in filter(None, (self.key, self.secret, self.password)):
            for form in (value, quote(value, safe=""), quote(value), repr(value)[1:-1]):
                shown = shown.replace(form, HIDDEN) if len(form) >= SHORTEST else shown
        return shown


def keys_from_environment(key: Sequence[str], secret: Sequence[str], password: Sequence[str] = ()) -> Keys:
    """The keys, each from the first of its variables that is set. A key without its secret is refused."""
    found = [_first(names) for names in (key, secret, password)]
    if (found[0] is None) != (found[1] is None):
        present, missing = (key, secret) if found[1] is None else (secret, key)
        raise DataError(f"{' or '.join(present)} is set, but not {' or '.join(missing)}: set both, or none")
    return Keys((key[0], secret[0]), *found)


def _first(names: Sequence[str]) -> str | None:
    """Spaces and line ends around it are dropped: `$(cat FILE)` and editors leave them there."""
    values = (os.environ.get(name, "").strip() for name in names)
    return next((value for value in values if value), None)
