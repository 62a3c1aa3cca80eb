"""Packages whose names are loaded when they are first used, so that importing the package costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], check: Callable[[str], None] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Args:
        homes: The names in each module, separated by spaces, by the module's name. One that begins with a dot is in the
            package; those of "" are modules of the package themselves.
        check: Called with the module's name before it is imported.

    Example:
        >>> find, _ = lazy_names("rookery", {".version": "__version__", "math": "pi e"})
        >>> find("pi")
        3.141592653589793
    """
    places = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in places:
            from rookery.foreign_names import missing

            importing = sys._getframe(1).f_code.co_name == "_handle_fromlist"  # which replaces an AttributeError
            is_module = importing and find_spec(f"{package}.{name}") is not None
            raise (ImportError if importing and not is_module else AttributeError)(missing(package, name, places))
        home = places[name]
        if not home:
            return import_module(f"{package}.{name}")
        home = f"{package}{home}" if home.startswith(".") else home
        if check is not None:
            check(home)
        return getattr(import_module(home), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return load, names
