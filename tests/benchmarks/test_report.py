"""What a benchmark has measured is never lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import engine_rows
    import report

    return report, engine_rows.Row


def test_each_row_is_told_and_written_at_once(
    modules: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, row = modules
    file = tmp_path / "figures.json"

    def measure() -> Iterator[Any]:
        yield row("the first", "2 s", "", 2.0, 1.0)
        assert "the first: 2.00x" in capsys.readouterr().err
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        report.measured({"one": measure}, None, file)
    assert [found["measure"] for found in json.loads(file.read_text())] == ["the first"]


def test_only_what_is_chosen_is_measured(modules: tuple[Any, Any]) -> None:
    report, row = modules
    rows = {name: lambda name=name: [row(name, "", "", 1.0, 1.0)] for name in ("a", "b")}
    assert [found.measure for found in report.measured(rows, ["b"])] == ["b"]
    assert [found.measure for found in report.measured(rows, None)] == ["a", "b"]
