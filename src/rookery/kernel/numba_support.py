"""Whether the installed Numba can compile kernel worlds.

The compiler passes, the linker setup and the atomic operations use parts of Numba that are not public, and which any
release may change. So only versions that are known to work are used. With any other version, or if one of these parts
is missing, kernel worlds run as plain Python: with the same results, but slowly.
"""

from __future__ import annotations

import re
from types import ModuleType

from rookery.console import say
from rookery.errors import MissingExtra
from rookery.once import once

OLDEST, NEWEST = (0, 60), (0, 68)  # pyproject.toml has the same bounds


@once
def load_native() -> ModuleType | None:
    """The module `rookery.kernel.native`, or None, after one line of warning, if this Numba cannot compile worlds."""
    try:
        import numba
    except ImportError as error:
        raise MissingExtra(
            f"kernel worlds are compiled with Numba, which cannot be imported ({error}): pip install 'rookery[kernel]'"
        ) from None
    if not _is_known(numba.__version__):
        _warn(numba.__version__, "which rookery was not tested with")
        return None
    try:
        import rookery.kernel.native as native
    except (ImportError, AttributeError, TypeError) as error:
        _warn(numba.__version__, f"which lacks a part that the compiler needs ({error})")
        return None
    return native


def _is_known(version: str) -> bool:
    """Whether a version is between OLDEST and NEWEST, whatever its patch level.

    >>> _is_known("0.68.1"), _is_known("0.69.0"), _is_known("unknown")
    (True, False, False)
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and OLDEST <= (int(numbers[1]), int(numbers[2])) <= NEWEST


def _warn(version: str, reason: str) -> None:
    known = f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
    say(
        f"kernel worlds run as plain Python, which is slow: this is Numba {version}, {reason}; to compile them, "
        f"pip install 'numba{known}'"
    )
