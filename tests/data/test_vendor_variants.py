"""Forty variants of every vendor's file: read the same, or one sentence that names the file; and no cost is absurd."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from data.test_vendors import FILES, NO_ZONE, SEPARATOR, assert_cheap, assert_same, opened, text_of
from data.vendor_variants import EITHER, ERROR, SAME, VARIANTS
from rookery.data.opened_data import open_data
from rookery.errors import DataError


def assert_handled(name: str, kind: str, tmp_path: Path) -> str:
    """Returns what became of it."""
    variant, expected = VARIANTS[kind]
    file, content = variant(text_of(name), SEPARATOR.get(name, ","))
    if content == text_of(name).encode():  # there is nothing to break: a header, a zone
        expected = SAME
    path = tmp_path / file
    path.write_bytes(content)
    zone = {"timezone": NO_ZONE[name]} if name in NO_ZONE else {}
    try:
        data = open_data(path, notes=[], **zone)
    except DataError as error:
        message = str(error)
        assert expected in (ERROR, EITHER), message
        assert "\n" not in message and file in message and len(message) < 400, message
        assert any(word in message for word in (":", "give", "remove", "write")), message
        return message
    assert expected in (SAME, EITHER)
    whole = opened(tmp_path, name, text_of(name))
    if data.symbols == ("f",):  # called after the file
        data = replace(data, bars=(replace(data.bars[0], symbol=whole.symbols[0]),))
    assert_same(data, whole)
    assert_cheap(data)
    return "read"


def test_there_are_forty() -> None:
    assert len(VARIANTS) == 40


@pytest.mark.parametrize("kind", VARIANTS)
def test_a_variant_of_one_vendor(kind: str, tmp_path: Path) -> None:
    number = list(VARIANTS).index(kind)
    assert_handled(FILES[number % len(FILES)], kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", VARIANTS)
def test_every_variant_of_every_vendor(name: str, kind: str, tmp_path: Path) -> None:
    assert_handled(name, kind, tmp_path)
