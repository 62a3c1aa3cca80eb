"""Configuration files and constraints that are made to take hours or gigabytes: each is one error within seconds."""

from __future__ import annotations

import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from rookery.config.reading import YAML_NUMBER, read_config, read_file
from rookery.config.sections import bytes_in, seconds_in
from rookery.errors import ConfigError, FileError
from rookery.studies.space.dimensions import Constraint
from rookery.training.backtest.joined_account import read_account
from rookery.training.sb3_models.import_sb3 import read_vecnormalize

SECONDS = 15.0  # of computing, for what takes up to 2 on a machine with nothing else to do
MIB = 1 << 20
BILLION = "a: &a [1]\n" + "\n".join(f"b{k}: &b{k} [*b{k - 1}, *b{k - 1}]" for k in range(1, 60)).replace("*b0", "*a")
FILES = {
    "deep_header.toml": f"[{'.'.join(['a'] * 290)}]\n" + "\n".join(f"{'b.' * 290}k{k} = 1" for k in range(1700)),
    "quoted_dots.toml": f"[{'.'.join(['a'] * 30)}]\n" + "\n".join('"=".a.' * 99 + f"k{k} = 1" for k in range(1500)),
    "inline_dots.toml": "\n".join(f"k{k} = {{{'.'.join(['b'] * 290)} = 1}}" for k in range(1500)),
    "deep_lists.toml": "a = " + "[" * 500_000,
    "deep_tables.toml": "a = " + "{a = " * 200_000,
    "many_tables.toml": "[[a]]\n" * 170_000,
    "digits.toml": "a = " + "9" * 1_000_000,
    "underscores.toml": "a = " + "1_" * 500_000,
    "many_numbers.toml": "a = [" + "1," * 500_000 + "]",
    "open_string.toml": "'" * (MIB - 1),
    "number.yaml": "a: " + "1" * 900_000 + "x",
    "exponent.yaml": "a: " + "1" * 16_000 + "." + "1" * 800_000 + "e",
    "sixties.yaml": "a: " + "1:" * 500_000 + "1",
    "float_of_sixties.yaml": "a: !!float " + "1:" * 9_000 + "1",
    "digits.yaml": "a: " + "9" * 1_000_000,
    "hexadecimal.yaml": "a: 0x" + "f" * 1_000_000,
    "lists.yaml": "[" * 1_000_000,
    "dashes.yaml": "- " * 500_000,
    "questions.yaml": "? " * 500_000,
    "documents.yaml": "---\n" * 250_000,
    "tags.yaml": "!" * MIB,
    "aliases.yaml": BILLION,
    "itself.yaml": "a: &a [*a]",
    "code.yaml": "a: !!python/object/apply:os.system [ls]",
    "words.yaml": "a: " + "b " * 500_000,
    "lines.yaml": "\n" * MIB,
    "binary.yaml": "a: !!binary " + "A" * 900_000,
    "date.yaml": "a: 2020-01-01" + " " * 1_000_000 + "x",
    "lists.json": "[" * 1_000_000,
    "dicts.json": '{"a":' * 200_000,
    "digits.json": '{"a": ' + "9" * 1_000_000 + "}",
    "many.json": '{"a": [' + "[]," * 340_000 + "[]]}",
    "key.json": '{"' + "a" * 900_000 + '": 1}',
    "nul.json": '{"a": "\0"}',
    "empty.json": " " * MIB,
}  # fmt: skip
LONGER = {"many_numbers.toml", "words.yaml", "lines.yaml", "many_tables.toml", "number.yaml"}  # a second or two each


@pytest.mark.few(10)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONGER else name for name in FILES]
)
def test_a_hostile_file_is_one_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    began = time.thread_time()
    with pytest.raises(ConfigError) as raised:
        read_config(path)
    assert time.thread_time() - began < SECONDS and len(str(raised.value)) < 5_000


@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".json"])
def test_a_large_file_is_not_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"large{suffix}"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(ConfigError, match="too large"):
        read_file(path)


@pytest.mark.parametrize("text", ["1e5", "3e-4", "-1.5E+3", "+.5e1", "1_000e2", "1.e3"])
def test_yaml_has_the_numbers_of_json(text: str, tmp_path: Path) -> None:
    assert YAML_NUMBER.match(text)
    path = tmp_path / "a.yaml"
    path.write_text(f"a: {text}\nb: {text}x\n")
    assert read_file(path) == {"a": float(text.replace("_", "")), "b": f"{text}x"}


@pytest.mark.parametrize(
    "text",
    ['"x" * 900000000 == x', "x * (\"y\" * 99999999) == 1", "[0] * 999999999 == [x]", '"%999999999d" % x == ""',
     "sum([x] * 99999999) > 0", '"a" + "b" == x', "[x] + [x] == 1", '-"a" == x', 'abs("a") == x',
     'sum(["a", "b"]) == x', "9 ** 9 ** 9 > x", "1 << 999999999 > x", "x < 10 ** 10", "(lambda: x)() > 1",
     "x.__class__ == 1", "[y for y in [x]]", "f'{x:999999999}' == ''", "x if x else x", "x[0] > 1", "exec('1') == x",
     "-" * 400 + "x > 1", "(" * 240 + "x" + ")" * 240, f"{'9' * 400} * {'9' * 60} > x", "x > " + "9" * 490,
     "x / 0 > 1", "x % 0.0 > 1", "min() > x", "len(x) > 1", "x\0 > 1"],
)  # fmt: skip
def test_a_hostile_constraint_is_one_error(text: str) -> None:
    """When it is read, or when it is computed; a few are plain arithmetic, and true or false."""
    tracemalloc.start()
    began = time.thread_time()
    if text.startswith(("-" * 9, "x >", "x.__class__")):
        assert Constraint(text).holds({"x": 3, "x.__class__": 3}) in (True, False)
    else:
        with pytest.raises(ConfigError, match="constraints") as raised:
            Constraint(text).holds({"x": 3})
        assert len(str(raised.value)) < 2_000
    assert tracemalloc.get_traced_memory()[1] < 1 << 24 and time.thread_time() - began < SECONDS
    tracemalloc.stop()


def test_products_of_large_numbers_end() -> None:
    with pytest.raises(ConfigError, match="bits"):
        Constraint("*".join(["x"] * 200) + " > 1").holds({"x": 2**62})


@pytest.mark.parametrize("read", [seconds_in, bytes_in])
@pytest.mark.parametrize("text", ["1" + " " * 20_000 + "x", "9" * 20_000, " " * 20_000, "1." + "9" * 20_000 + "x"])
def test_amounts_are_read_in_linear_time(read: object, text: str) -> None:
    began = time.thread_time()
    with pytest.raises(ValueError, match="a text such as"):
        read(text)  # type: ignore[operator]
    assert time.thread_time() - began < 1.0


@pytest.mark.parametrize(
    "shape", ["(1000000000000,)", "(-1,)", "(0, 10000000000000000000000)", "(9223372036854775807, 9)"]
)
def test_an_absurd_shape_in_a_file_is_one_error(shape: str, tmp_path: Path) -> None:
    """The statistics of a stranger's observations, and a stranger's account."""
    line = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + bytes(64)
    with zipfile.ZipFile(tmp_path / "stats.npz", "w") as archive:
        archive.writestr("mean.npy", array)
    (tmp_path / "account.npy").write_bytes(array)
    with pytest.raises(FileError):
        read_vecnormalize(tmp_path / "stats.npz", 8)
    with pytest.raises(FileError):
        read_account(tmp_path / "account.npy")
