"""Packages whose names are loaded when they are first used, so that importing the package costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

SIGNS = str.maketrans("(),", "   ")


def lazy_names(
    package: str, check: Callable[[str], None] | None = None, modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package. Its names are those that its file imports under
    `TYPE_CHECKING`, as themselves: what type checkers know, users get.

    Args:
        check: Called with the module's name before it is imported.
        modules: Names that are modules of the package themselves, whatever type checkers are told.

    Example:
        >>> find, *_ = lazy_names("rookery.learners")
        >>> find("LearnerSpec")
        <class 'rookery.learners.learner_spec.LearnerSpec'>
    """
    places: dict[str, str] = {}
    with open(str(sys.modules[package].__file__), encoding="utf-8") as file:  # pathlib would take longer to import
        block = file.read().partition("if TYPE_CHECKING:\n")[2].partition("\n\n")[0]
    for imported in block.split("    from ")[1:]:
        home, _, found = imported.partition(" import ")
        places |= dict.fromkeys(set(found.translate(SIGNS).split()) - {"as"}, "" if home == package else home)
    places |= dict.fromkeys(modules, "")

    def load(name: str) -> Any:
        if name not in places:
            from rookery.foreign_names import missing

            importing = sys._getframe(1).f_code.co_name == "_handle_fromlist"  # which replaces an AttributeError
            is_module = importing and find_spec(f"{package}.{name}") is not None
            raise (ImportError if importing and not is_module else AttributeError)(missing(package, name, places))
        home = places[name]
        if not home:
            return import_module(f"{package}.{name}")
        if check is not None:
            check(home)
        return getattr(import_module(home), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return load, names, sorted(places)


def load_object(place: str) -> Any:
    """The object named "package.module:name".

    >>> load_object("math:pi")
    3.141592653589793
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
