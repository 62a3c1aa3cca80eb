"""A few metrics read without the others are those that decoding everything finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.web.run_views.few_metrics import COMPILED, counted_names, scanned, searched
from rookery.web.run_views.metric_chunk import MetricChunk, chunk_of, metric_names

RECORDED = Path(__file__).parents[2] / "data" / "recorded_runs"
NAMES = ("episode/return", "eval/return", "eta_seconds", "no such metric")


@pytest.fixture(params=[scanned, searched])
def read(request: pytest.FixtureRequest) -> Callable[..., MetricChunk]:
    """Both ways of reading."""
    if request.param is scanned and not COMPILED:
        pytest.skip("rookery was installed without a C compiler")
    found: Callable[..., MetricChunk] = request.param
    return found


def line(kind: str = "progress", step: int = 1, **values: Any) -> bytes:
    return json.dumps({"kind": kind, "step": step, "time": 1.5, **values}).encode()


LINES = {
    "numbers": [line(a=1), line(a=-2.5e-7), line(a=3)],
    "not in every line": [line(b=1), line(a=2), line("evaluation", a=4, b=5), line(b=1)],
    "no number": [line(a=1), line(a=None), line(a="2, 3"), line(a=[1, 2]), line(a=True), line(a=4)],
    "other events": [line("start", resumed_from=0), line(a=1), line("note", text='"a": 3, }'), line(a=2)],
    "an object inside": [line(b={"a": 3}), line(a=1)],
    "damaged": [line(a=1), b'{"kind": "progress", "step": 1, "ti', line(a=2)],
    "a longer name": [line(ab=1, **{"b/a": 2}), line(a=3)],
    "a large number": [line(a=10**400), line(a=1)],
    "others with values": [
        line("start", resumed_from=None, seed=3),
        line("note", text="é"),
        line("checkpoint", path="a/b", best=False),
        line("start", resumed_from=5),
        line("start", resumed_from="5"),
        line("startle", resumed_from=5),
        line("", b=1),
        line("end", reason="finished") + b" ",
        line("end")[:-1],
        line("end", workers={"a": 3}),
        line("end", loss=[1]),
    ],
    "bytes that are no text": [line(a=1), line("note", text="x").replace(b"x", b"\xff"), line(a=2)],
    "only others": [line("note", text="x"), line("start")],
    "numbers at the limits": [line(a=value) for value in (5e-324, 1.7976931348623157e308, 2**53 + 1, 0.1 + 0.2, -0.0)],
    "numbers as others write them": [
        line(a=1).replace(b"1}", text) for text in (b"1E5}", b"01}", b"1.}", b"-}", b"1 }")
    ],
    "not a step": [line(step=None), line(step=1e301), line(step="1"), line(step=2.5)],
    "returns": [line(a=1) + b"\r", line(a=2)],
    "empty lines": [b"", line(a=1), b"", b"", line(a=2), b"{", b"}"],
    "in another order": [line(a=1, b=2, c=3), line(c=1, b=2, a=3), line(b="x" * 300, a=4), line(a=5, b="x" * 300)],
    "not ascii": [line(**{"é": 3, "a": 1}), '{"kind": "progress", "step": 1, "time": 1, "é": 2, "a": 7}'.encode()],
    "nothing": [],
}


def assert_same(few: MetricChunk, name: str, lines: bytes) -> None:
    everything = chunk_of(lines)
    for column in ("steps", "times", "kinds"):
        np.testing.assert_array_equal(getattr(few, column), getattr(everything, column))
    assert list(few.cuts) == list(everything.cuts)
    assert (name in few.metrics) == (name in everything.metrics)
    if name in everything.metrics:
        np.testing.assert_array_equal(few.metrics[name].rows, everything.metrics[name].rows)
        np.testing.assert_array_equal(few.metrics[name].values, everything.metrics[name].values)


@pytest.mark.parametrize("kind", LINES)
def test_lines(read: Callable[..., MetricChunk], kind: str) -> None:
    for lines in (b"\n".join(LINES[kind]), b"".join(each + b"\n" for each in LINES[kind])):
        assert_same(read(lines, ["a"]), "a", lines)


@pytest.mark.parametrize("kind", LINES)
def test_names_are_counted_as_decoding_finds_them(kind: str) -> None:
    for lines in (b"\n".join(LINES[kind]), b"".join(each + b"\n" for each in LINES[kind])):
        assert counted_names(lines) == metric_names([chunk_of(lines)])


def test_a_name_that_is_no_text_is_not_counted() -> None:
    lines = b"\n".join([line(a=1), line(x=1).replace(b"x", b"\xff"), line(a=2), b""])
    assert counted_names(lines) == metric_names([chunk_of(lines)]) == {"a": 2}


def test_names_of_recorded_runs_are_counted() -> None:
    files = list(RECORDED.glob("*/metrics.jsonl"))
    assert files
    for path in files:
        assert list(counted_names(path.read_bytes()).items()) == list(
            metric_names([chunk_of(path.read_bytes())]).items()
        )


def test_more_names_than_compiled_code_keeps_are_counted() -> None:
    lines = b"".join(
        line(step=step, **{f"m{name}": 1 for name in range(step, step + 200)}) + b"\n" for step in range(300)
    )
    assert counted_names(lines) == metric_names([chunk_of(lines)])


@pytest.mark.parametrize("name", NAMES)
def test_recorded_runs(read: Callable[..., MetricChunk], name: str) -> None:
    for path in RECORDED.glob("*/metrics.jsonl"):
        lines = path.read_bytes()
        only = b"\n".join(each for each in lines.split(b"\n") if each.startswith((b'{"kind": "pro', b'{"kind": "eva')))
        assert_same(read(lines, [name]), name, lines)
        assert_same(read(only, [name]), name, only)


def test_others_are_not_decoded(read: Callable[..., MetricChunk]) -> None:
    lines = b"\n".join(line(step=step, a=1.0, b=2.0) for step in range(3))
    assert list(read(lines, ["b"]).metrics) == ["b"]


def test_random_numbers_are_rounded_as_python_does(read: Callable[..., MetricChunk]) -> None:
    random = np.random.default_rng(0)
    values = [*random.normal(size=2000), *np.frombuffer(random.bytes(8 * 2000)), *random.integers(-(2**62), 2**62, 500)]
    finite = [value.item() for value in values if np.isfinite(value)]
    lines = b"".join(line(step=step, a=value, b=-value) + b"\n" for step, value in enumerate(finite))
    assert read(lines, ["a", "b"]).metrics["a"].values.tolist() == list(map(float, finite))


def test_decimal_numbers_are_rounded_as_python_does(read: Callable[..., MetricChunk]) -> None:
    """Also those with more digits than a float keeps, or halfway between two floats."""
    random = np.random.default_rng(2)
    texts = [f"{whole}.{part:0{decimals}d}" for whole, decimals, part in _parts(random, 3000)]
    texts += [f"{value:.{decimals}e}" for decimals in (3, 15, 17, 20) for value in random.lognormal(sigma=20, size=500)]
    texts += [f"{2**53 + 2 * step + 1}.{tail}" for step in range(200) for tail in ("0", "0000", "00001", "9")]
    texts += [
        "0.0",
        "0.000000000000000000000000001",
        "18446744073709551615.5",
        "9999999999999999999",
        "1e-9999",
        "0e400",
    ]
    lines = b"".join(line(step=step, a=1).replace(b"1}", text.encode() + b"}\n") for step, text in enumerate(texts))
    assert read(lines, ["a"]).metrics["a"].values.tolist() == list(map(float, texts))


def _parts(random: np.random.Generator, count: int) -> Iterator[tuple[int, int, int]]:
    for _ in range(count):
        decimals = int(random.integers(1, 19))
        yield (
            int(random.integers(0, 10 ** int(random.integers(1, 11)))),
            decimals,
            int(random.integers(0, 10**decimals)),
        )


def test_damaged_bytes(read: Callable[..., MetricChunk]) -> None:
    """Of a damaged file both read at least the events that decoding finds."""
    random, good = np.random.default_rng(1), b"".join(line(step=step, b="x", a=step / 7) + b"\n" for step in range(8))
    for _ in range(400):
        lines = bytearray(good)
        for place in random.integers(0, len(lines), random.integers(1, 4)):
            lines[place] = random.choice(np.frombuffer(b'{}",:\n0-.eE[]x', np.uint8))
        assert set(chunk_of(bytes(lines)).steps) <= set(read(bytes(lines), ["a"]).steps)
