"""No regular expression of ours takes more than linear time, whatever it is given.

Every pattern in the source is pumped: a text is made that repeats one of its parts thousands of times and then fails.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rookery"
FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer")
CHARACTERS = (" ", "a", "1", "_", "-", ".", '"', "/")
LENGTH = 64 << 10
SECONDS = 1.0  # of computing; quadratic patterns take ten, linear ones a millisecond
OWN = {  # patterns for texts that only this program and its libraries write
    "apps/memory_explorer/session.py": "what the user types",
    "kernel/diagnosis.py": "messages of Numba",
    "tools/measurements.py": "metadata of our own package",
    "tools/profile.py": "names of Python's profiler",
    "web/html_report.py": "our own page",
    "web/page_shell.py": "our own page",
}


def files() -> list[str]:
    """Those that use regular expressions of texts from elsewhere."""
    sources = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    return sorted(name for name in {*sources} - {*OWN} if re.search(r"^\s*import re$", sources[name], re.MULTILINE))


def patterns(name: str) -> Iterator[tuple[int, str | bytes, int, tuple[str, ...]]]:
    """(line, pattern, flags, how it is used) of all patterns in a file that are written as constants."""
    source = (SOURCE / name).read_text()
    for line, function, text, flags, variable in _calls(ast.parse(source)):
        used = (function,) if function != "compile" else _uses(source, variable)
        yield line, text, flags, used


def _calls(tree: ast.AST) -> Iterator[tuple[int, str, str | bytes, int, str]]:
    variables = {id(value): target for node in ast.walk(tree) if isinstance(node, ast.Assign)
                 for target, value in _assigned(node)}  # fmt: skip
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[ast.Constant(value=text), *_]):
                if name in FUNCTIONS:
                    yield node.lineno, name, text, _flags(node), variables.get(id(node), "")


def _assigned(node: ast.Assign) -> Iterator[tuple[str, ast.AST]]:
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from ((ast.unparse(one), part) for one, part in zip(target.elts, value.elts, strict=False))
    else:
        yield ast.unparse(target), value


def _uses(source: str, variable: str) -> tuple[str, ...]:
    return tuple(name for name in FUNCTIONS if f"{variable}.{name}(" in source) or ("match",)


def _flags(call: ast.Call) -> int:
    parts = (*call.args[1:], *call.keywords)
    names = {each.attr for part in parts for each in ast.walk(part) if isinstance(each, ast.Attribute)}
    return int(sum(getattr(re, name) for name in names if isinstance(getattr(re, name, None), re.RegexFlag)))


@pytest.mark.parametrize("name", files())
def test_patterns_are_linear(name: str) -> None:
    for line, text, flags, used in patterns(name):
        check(text, flags, used, LENGTH, line)


def check(text: str | bytes, flags: int, used: tuple[str, ...], length: int, line: int = 0) -> None:
    compiled = re.compile(text, flags)
    for hostile in set(hostile_texts(text, flags, length)):
        given = hostile.encode("latin-1", "replace") if isinstance(text, bytes) else hostile
        for name in used:
            arguments = ("", given) if name == "sub" else (given,)
            began = time.thread_time()
            getattr(compiled, name)(*arguments)
            assert time.thread_time() - began < SECONDS, (line, name, given[:30], given[-30:])


@pytest.mark.slow
def test_a_quadratic_pattern_is_found() -> None:
    with pytest.raises(AssertionError):
        check(r"(\d+)\s*([smhd]?)\s*", 0, ("fullmatch",), LENGTH // 4)
    with pytest.raises(AssertionError):
        check(r"^[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$", 0, ("match",), LENGTH // 4)
    assert sum(len(list(patterns(name))) for name in files()) > 80


def hostile_texts(text: str | bytes, flags: int, length: int) -> Iterator[str]:
    """Each repetition in turn many times, with each character that it may have, and an end that does not fit."""
    tree = parser.parse(text, flags)
    for pumped in range(_repetitions(tree)):
        for character in CHARACTERS:
            for is_short in (True, False):  # without the parts that may be left out, and with them
                yield _Text(pumped, character, length, is_short).of(tree) + "\x01"


def _repetitions(tree: Any) -> int:
    counting = _Text(-1, "a", 1, is_short=False)
    counting.of(tree)
    return counting.seen


class _Text:
    """Makes a text that fits a parsed pattern, in which one repetition is long."""

    def __init__(self, pumped: int, character: str, length: int, is_short: bool) -> None:
        self.seen, self._pumped, self._character, self._length = 0, pumped, character, length
        self._is_short = is_short

    def of(self, tree: Any) -> str:
        return "".join(self._part(code, value) for code, value in tree)

    def _part(self, code: Any, value: Any) -> str:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            return self._repeated(*value)
        if code is codes.SUBPATTERN:
            return self.of(value[-1])
        if code is codes.BRANCH:
            made = [self.of(branch) for branch in value[1]]
            return max(made, key=len)
        if code is codes.LITERAL:
            return chr(value)
        if code is codes.IN:
            return self._one_of(value)
        return self._character if code in (codes.ANY, codes.NOT_LITERAL) else ""

    def _repeated(self, least: int, most: Any, tree: Any) -> str:
        self.seen += 1
        times = max(1, least)
        if self.seen - 1 == self._pumped:
            times = min(int(most), self._length)
            once = self.of(tree)
            return (once * times)[: max(self._length, len(once))]
        return self.of(tree) * (least if self._is_short else times)

    def _one_of(self, members: Any) -> str:
        allowed = [
            each
            for each in (self._character, *CHARACTERS, "x", "e", "Z", "0", "\n", ",", "[", "(", "'", ":")
            if _fits(members, each)
        ]
        if allowed:
            return allowed[0]
        first = next((value for code, value in members if code in (codes.LITERAL, codes.RANGE)), ord("!"))
        return chr(first if isinstance(first, int) else first[0])


def _fits(members: Any, character: str) -> bool:
    has, wanted = False, True
    for code, value in members:
        if code is codes.NEGATE:
            wanted = False
        elif code is codes.LITERAL:
            has |= ord(character) == value
        elif code is codes.RANGE:
            has |= value[0] <= ord(character) <= value[1]
        elif code is codes.CATEGORY:
            sign = {codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_SPACE: r"\s",
                    codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_NOT_WORD: r"\W",
                    codes.CATEGORY_NOT_SPACE: r"\S"}[value]  # fmt: skip
            has |= re.match(sign, character) is not None
    return has is wanted
