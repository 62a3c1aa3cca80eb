"""How the words of a command become options: as argparse does it, but a mistake is told in one line, with the nearest
name that there is."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, NoReturn

from rookery.errors import OptionError


class Parser(argparse.ArgumentParser):
    """Takes flags by their whole names only, and refuses one option by two names with two values. What is wrong is
    raised as an OptionError."""

    def __init__(self, **options: Any) -> None:
        # What is short for one flag today would be short for another, or for none, once there are more of them.
        super().__init__(**{"allow_abbrev": False, **options})
        for kind in (None, "store"):
            self.register("action", kind, _StoreByOneName)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """A command's own parser tells what it does not know: the one above it has other flags."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            raise OptionError(self._unknown(unknown))
        return found, []

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message}; `{self.prog} --help` tells more")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            near = _nearest(value, action.choices)
            raise OptionError(f"unknown command {value}; " + (near or f"there are {', '.join(action.choices)}"))
        super()._check_value(action, value)

    def _unknown(self, words: list[str]) -> str:
        """What to say about words that belong to no option; those that are no flags may be the values of ones."""
        from rookery.config.validation import told_together

        lists = f"`{self.prog} --help` lists what there is"
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"{self.prog} has no place for {' '.join(words)}; {lists}"
        known = [name for action in self._actions for name in action.option_strings]
        return told_together([f"unknown flag {flag}; {_nearest(flag, known) or lists}" for flag in flags])


class _StoreByOneName(argparse._StoreAction):
    """Keeps a value. A flag may be given again, and the last one counts, as in other programs; but where two names have
    two values, nobody could say which is meant."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        given = vars(namespace).setdefault("given_by", {})  # not in the action, which may parse again
        name, value = given.get(self.dest, (option, values))
        if name != option and value != values:
            from rookery.config.layers import two_names

            raise OptionError(two_names(name, value, str(option), values))
        given[self.dest] = option, values
        super().__call__(parser, namespace, values, option)


def _nearest(wrong: str, names: Iterable[str]) -> str:
    """What was probably meant, as a question; nothing if it is like none of the names."""
    from rookery.config.fields import joined, like

    plain = {name.lstrip("-").replace("-", "_"): name for name in names}
    near = [plain[name] for name in like(wrong.lstrip("-"), plain)]
    return f"did you mean {joined(near)}?" if near else ""
