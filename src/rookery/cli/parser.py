"""Parsing of the command line: argparse, but a mistake is reported in one line, with the nearest valid name."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Self

from rookery.console import join_or
from rookery.errors import OptionError
from rookery.foreign_names import COMMANDS, flag_answer
from rookery.foreign_options import ANSWERS, RUN_KEYS

Commands = argparse._SubParsersAction


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    more: str,
    example: str,
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
) -> argparse.ArgumentParser:
    """Add a command with its help. `run` gets the parsed options and returns the exit status. `add_arguments` is called
    when the command is used or described: for options that take long to list."""
    options: dict[str, Any] = {} if add_arguments is None else {"add_arguments": add_arguments}  # argparse has no such
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {more}",
        epilog=f"example: {example}",
        **options,
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, for programs")
    parser.set_defaults(run=run)
    return parser


def takes(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, words: str, text: str, usual: Any = None, **options: Any
) -> argparse.Action:
    """Add an argument: "--bars N" takes a value, "--force" is a switch, and "name RUN" has a place. `text` is its help.
    A `usual` value is the default, and gives the type and the end of the help; `options` are further ones of argparse,
    whose `default` does neither.

    >>> parser = Parser()
    >>> [takes(parser, "--bars --n N", "number of bars", 60).help, takes(parser, "--force", "overwrite it").help]
    ['number of bars (60)', 'overwrite it']
    >>> parser.parse_args(["--n", "7"])
    Namespace(bars=7, force=False, given_by={'bars': ('--n', 7)})
    """
    names = [word for word in words.split() if word.startswith("-")] or words.split()[:1]
    metavar = words.split()[len(names) :]
    if usual is not None:
        options |= {"default": usual, "type": type(usual)}
        text = f"{text} ({usual:g})" if isinstance(usual, float) else f"{text} ({usual})"
    if metavar:
        options["metavar"] = metavar[0]
    elif names[0].startswith("-") and not options.keys() & {"action", "choices", "type"}:
        options["action"] = "store_true"
    return parser.add_argument(*names, help=text, **options)


class Parser(argparse.ArgumentParser):
    """Accepts flags by their full names only, and refuses one option given under two names with two values. Mistakes
    are raised as an OptionError."""

    def __init__(self, add_arguments: Callable[[argparse.ArgumentParser], None] | None = None, **options: Any) -> None:
        # An abbreviation that is unique today would be ambiguous once there are more flags.
        super().__init__(**{"allow_abbrev": False, **options, "add_help": False})
        self.add_argument("-h", "--help", action=_Help, help="show this help and exit")
        self.add_to_help: Callable[[argparse.Namespace], None] | None = None
        for kind in (None, "store"):
            self.register("action", kind, _StoreByOneName)
        self._add_arguments = add_arguments

    def complete(self) -> Self:
        """Add the arguments that were put off until they are needed."""
        add, self._add_arguments = self._add_arguments, None
        if add is not None:
            add(self)
        return self

    def format_help(self) -> str:
        self.complete()
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """A command's own parser reports unknown flags: the parser above it has other flags."""
        self.complete()
        found, unknown = super().parse_known_args(args, namespace)
        for text in getattr(found, "set", None) or []:
            if unknown and "=" not in text:
                raise OptionError(f"--set {text}: should be KEY=VALUE without a space, as in --set {text}={unknown[0]}")
        if unknown:
            raise OptionError(self._unknown(unknown))
        return found, []

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument ([^:]*/)?(--[\w-]+): expected one argument$", r"\2 needs a value", message)
        raise OptionError(f"{message}; `{self.prog} --help` describes the command")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            meant = COMMANDS.get(value.lower())
            near = f"did you mean {meant}?" if meant in action.choices else _did_you_mean(value, action.choices)
            raise OptionError(f"unknown command {value}; {near or meant or f'`{self.prog} --help` lists all commands'}")
        super()._check_value(action, value)

    def _unknown(self, words: list[str]) -> str:
        """The message about words that belong to no option; if none is a flag, they are surplus values."""
        from rookery.config.validation import join_problems

        lists = f"`{self.prog} --help` lists all flags"
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"unexpected {' '.join(words)!r}; {self._takes(words[0])}"
        known = [name for action in self._actions for name in action.option_strings]
        instead = {flag: self._instead(flag, known) or _did_you_mean(flag, known) or lists for flag in flags}
        return join_problems([f"unknown flag {flag}; {text}" for flag, text in instead.items()])

    def _takes(self, word: str) -> str:
        """What a command takes, beside a word that it does not."""
        if word[0] in "/\u2013\u2014":  # also dashes, as word processors and chats write them
            return "a flag begins with two hyphens"
        if "=" in word and "--set" in self._option_string_actions:
            return f"use --set {word}"
        places = " and ".join(str(action.metavar) for action in self._actions if not action.option_strings)
        return f"{self.prog} takes {f'one {places}' if places else 'flags'}, each flag one value: `{self.prog} --help`"

    def _instead(self, flag: str, known: list[str]) -> str:
        """How to write a flag of another program, or one that is named like a key; "" for others."""
        name = flag.lstrip("-").replace("-", "_")
        same = f"--{RUN_KEYS.get(name, name).rpartition('.')[2].replace('_', '-')}"
        if same in known:
            return f"write {same}"
        if not any(action.dest == "set" for action in self._actions):
            return flag_answer(name, known)
        from rookery.config.fields import meaning, setting
        from rookery.config.inputs import may_change, resume_refusal

        key = meaning(name)
        if self.prog.endswith(" resume") and key is not None and not may_change(key):
            return resume_refusal(key)
        if text := flag_answer(name, known):
            return text
        if name in ANSWERS:
            return _in_the_shell(ANSWERS[name], known)
        takes_all = "--steps" in known or str(key).startswith("evaluation.")  # others take options of the world only
        return f"write --set {setting(name)}" if key and takes_all else ""


def _in_the_shell(text: str, flags: Sequence[str] = ()) -> str:
    """An answer about keys, as it is typed in the shell.

    >>> _in_the_shell("use `monitor.wandb` = true alone")
    'use --set monitor.wandb=true alone'
    >>> _in_the_shell('use `device` = "cuda" or "cpu"', ["--device"])
    'use --device cuda or cpu'
    >>> _in_the_shell("use `num_envs` or `checkpoints.every`", ["--num-envs"])
    'use --num-envs or --set checkpoints.every=VALUE'
    """

    def typed(found: re.Match[str]) -> str:
        flag = f"--{found[1].replace('_', '-')}"
        return f"{flag} {found[2]}".replace('"', "") if flag in flags else f"--set {found[1]}={found[2]}"

    value = r'(?:"[^"]*"|\[[^\]]*\]|[\w.]+)'

    def key(found: re.Match[str]) -> str:
        flag = f"--{found[1].replace('_', '-')}"
        return flag if flag in flags else f"--set {found[1]}=VALUE" if found[1] in fields() else found[0]

    from rookery.config.fields import fields

    return re.sub(r"`([\w.]+)`", key, re.sub(rf"`([\w.]+)` = ({value}(?: or {value})*)", typed, text))


class _Help(argparse._HelpAction):
    """Prints the help. A command can add to it what depends on the words before `--help`, such as the world."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if isinstance(parser, Parser) and parser.add_to_help is not None:
            parser.add_to_help(namespace)
        super().__call__(parser, namespace, values, option)


class _StoreByOneName(argparse._StoreAction):
    """Stores a value. A repeated flag overrides the earlier one, as in other programs; two names of one option with two
    values are rejected, because it is unclear which is meant."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        given = vars(namespace).setdefault("given_by", {})  # not in the action, which may parse again
        name, value = given.get(self.dest, (option, values))
        if name != option and value != values:
            from rookery.config.layers import two_names_message

            raise OptionError(two_names_message(name, value, str(option), values))
        given[self.dest] = option, values
        super().__call__(parser, namespace, values, option)


def _did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """What was probably meant, as a question; "" if no name is similar."""
    from rookery.config.fields import CLOSE, CLOSE_KEY, closest_names

    plain = {name.lstrip("-").replace("-", "_"): name for name in names}
    cutoff = CLOSE_KEY if wrong.startswith("-") else CLOSE  # there are many flags, and few commands
    near = [plain[name] for name in closest_names(wrong.lstrip("-"), plain, cutoff)]
    near = near or [plain[name] for name in plain if sorted(name) == sorted(wrong.lstrip("-"))]
    return f"did you mean {join_or(near)}?" if near else ""
