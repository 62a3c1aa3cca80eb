"""Reading a configuration from a file: TOML, JSON or YAML, by its suffix."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from rookery import files
from rookery.config.curriculum_json import from_grid, from_json, is_curriculum, is_grid
from rookery.config.layers import DEEPEST, LONGEST_KEY, LONGEST_TEXT, MOST_VALUES, check_size
from rookery.config.trading_config import from_trading, is_trading
from rookery.console import printable, printable_lines
from rookery.errors import ConfigError, MissingExtra
from rookery.files import read_plain

LONGEST_ERROR = 1_000  # characters of a reader's message, which may quote the file
LARGEST = 1 << 20  # bytes: a larger file is not a configuration
YAML_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$")


def is_config(source: str) -> bool:
    """Whether this names a config file rather than a world: by its suffix, or because there is such a file."""
    path = Path(source)
    return path.suffix.lower() in READERS or (path.suffix not in ("", ".py") and os.path.isfile(path))


def read_config(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a config file, unchecked; the file of an older trainer is translated. An error about the syntax
    names the file and the line."""
    content = read_file(path)
    try:
        return translated(content)
    except ConfigError as error:
        raise ConfigError(f"{printable(path)}: {error}") from None


def translated(content: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with rookery's sections; that of an older trainer is translated."""
    if is_grid(content):
        return from_grid(content)
    if is_curriculum(content):
        return from_json(content)
    return from_trading(content) if is_trading(content) else dict(content)


def read_file(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a file, not translated."""
    file, shown = Path(path), printable(path)
    read = READERS.get(file.suffix.lower())
    if read is None:
        raise ConfigError(
            f"{shown}: cannot be read as a configuration; the file name should end in {', '.join(READERS)}"
        )
    try:
        content = read(_text(file))
        check_size(content)
    except RecursionError:
        raise ConfigError(f"{shown}: is nested too deeply") from None
    except (ValueError, OverflowError) as error:  # a syntax error, or an invalid number or date
        raise ConfigError(f"{shown}: {printable_lines(error)[:LONGEST_ERROR]}") from None
    if not isinstance(content, dict):
        found = "nothing" if content is None else f"a {type(content).__name__}"
        raise ConfigError(f"{shown}: should hold keys with values, such as the key `world`, got {found}")
    return content


class _FileError(ValueError):
    """What is wrong with the content of a file."""


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST:
            raise _FileError(f"is larger than {LARGEST >> 20} MiB, too large for a configuration")
        data = read_plain(file, LARGEST)
    except FileNotFoundError:
        raise _FileError("there is no such file") from None
    except OSError as error:
        raise _FileError(f"cannot be read ({error.strerror or error})") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _FileError("is not UTF-8 text") from None
    if "\0" in text:
        raise _FileError("is not text: it holds a null byte")
    return text


def _toml(text: str) -> Any:
    try:
        return files.load_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise _FileError(f"is not valid TOML: {error}") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise _FileError(f"is not valid JSON: {error.msg} (at line {error.lineno}, column {error.colno})") from None


def _unique_keys(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Refuse a repeated key, of which JSON and YAML would silently use the last."""
    content: dict[Any, Any] = {}
    for key, value in pairs:
        if key in content:
            raise _FileError(f"holds the key `{printable(key)[:LONGEST_KEY]}` twice")
        content[key] = value
    return content


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtra("reading YAML needs the package pyyaml: pip install pyyaml") from None

    class Loader(yaml.SafeLoader):
        """Safe, with 1e5 and 3e-4 as the numbers that they are in TOML, JSON and YAML 1.2."""

        nodes = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.nodes, self.depth = self.nodes + 1, self.depth + 1
            if self.nodes > 2 * MOST_VALUES:
                raise _FileError(f"holds more than {MOST_VALUES:,} values, too many for a configuration")
            if self.depth > 2 * DEEPEST:
                raise _FileError(f"is nested too deeply: more than {DEEPEST} levels")
            node = super().compose_node(parent, index)
            if isinstance(node, yaml.ScalarNode) and len(node.value) > LONGEST_TEXT:  # 1:1:1:... is one number
                raise _FileError(f"holds a string of {len(node.value):,} characters: {node.value[:40]!r}...")
            self.depth -= 1
            return node

        def get_single_data(self) -> Any:
            node = self.get_single_node()
            _check_expanded(node)
            return None if node is None else self.construct_document(node)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            plain = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            _unique_keys([(key.value, None) for key in plain if key.tag != "tag:yaml.org,2002:merge"])
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", YAML_NUMBER, list("-+.0123456789"))
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise _FileError(f"is not valid YAML: {error.problem or error.context}{place}") from None
    except yaml.YAMLError as error:
        raise _FileError(f"is not valid YAML: {error}") from None


def _check_expanded(node: Any) -> None:
    """Refuse YAML whose aliases expand to too many values: ten lines can expand to billions."""
    sizes: dict[int, int] = {}  # by identity of the node; 0 while it is being counted

    def size(node: Any) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = 0
            items = node.value if isinstance(node.value, list) else ()
            pairs = (item if isinstance(item, tuple) else (item,) for item in items)
            sizes[id(node)] = 1 + sum(size(part) for pair in pairs for part in pair)
        elif not sizes[id(node)]:
            raise _FileError("holds an alias of itself")
        return sizes[id(node)]

    if node is not None and size(node) > 2 * MOST_VALUES:
        raise _FileError(f"holds more than {MOST_VALUES:,} values once its aliases are expanded")


READERS: dict[str, Callable[[str], Any]] = {".toml": _toml, ".json": _json, ".yaml": _yaml, ".yml": _yaml}
