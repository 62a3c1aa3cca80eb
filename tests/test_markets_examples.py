"""The scripts in examples/, and what docs/markets.md says about options."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.data.splits import holdout
from rookery.worlds.market import crypto, forex
from rookery.worlds.market.costs import PRESETS
from rookery.worlds.market.market_options import OF_RUNS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "markets.md").read_text()
INTERNAL = {"bar_years"}  # follows from the timeframe


def table_after(heading: str, title: str) -> dict[str, str]:
    """The option names of a table, each with the cell of its defaults."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = section.split(f"\n{title}:\n\n")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {name: cell[1] for cell in cells for name in re.findall(r"`(\w+)`", cell[0])}


@pytest.mark.parametrize(
    ("title", "world", "parameters"),
    [("Crypto", crypto.Crypto, {*crypto.PARAMETERS, "fee", "min_order"}), ("Forex", forex.Forex, {*forex.PARAMETERS})],
)
def test_every_option_is_described(title: str, world: type, parameters: set[str]) -> None:
    """And no other is."""
    described = {**table_after("Options", "Both worlds"), **table_after("Options", title)}
    taken = set(inspect.signature(world.__init__).parameters) - {"self", "parameters"}
    known = taken | (parameters - INTERNAL) | {"action_type", "layout", "episode_length", *OF_RUNS}
    other_names = {"data_dir", "observation_feature_cols"}
    assert described.keys() - other_names == known


def test_defaults_are_true() -> None:
    """Of options in the tables of one world, whose cells list their numbers."""
    for title, parameters in (("Crypto", {**crypto.PARAMETERS, "min_order": 10}), ("Forex", forex.PARAMETERS)):
        for names, cell in _groups(table_after("Options", title)):
            if re.fullmatch(r"[-\d., ]+|false", cell):
                shown = [
                    float(text == "true") if text in ("true", "false") else float(text) for text in cell.split(", ")
                ]
                assert shown == [float(parameters[name]) for name in names], names


def _groups(cells: dict[str, str]) -> list[tuple[list[str], str]]:
    """Names that share a row have their defaults in one cell."""
    shared = [cell for cell in dict.fromkeys(cells.values()) if "," in cell]
    groups = [([name for name in cells if cells[name] == cell], cell) for cell in shared]
    return groups + [([name], cell) for name, cell in cells.items() if "," not in cell]


def test_costs_and_splits_are_true() -> None:
    rows = {row.split("`")[1]: row for row in PAGE.splitlines() if re.match(r"\| `[\w-]+` \| [\d.]+ ?%? \|", row)}
    for name, costs in PRESETS.items():
        numbers = [float(text) for text in re.findall(r"([\d.]+)(?= %| \|)", rows[name])]
        kinds = ("fee", "half_spread", "slippage", "impact", "swap_long")
        assert numbers[:5] == pytest.approx([100 * float(getattr(costs, kind)) for kind in kinds]), name
    parts = holdout(1000)
    assert [len(parts.rows(part)) for part in ("train", "validation", "test")] == [700, 150, 150]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("script", "steps", "shown"), [("forex_trainer", 2_000, "agent:"), ("crypto_portfolio", 16_384, "report:")]
)
def test_examples_run(script: str, steps: int, shown: str, tmp_path: Path) -> None:
    """From start to end in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "examples" / f"{script}.py"), str(steps)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert shown in done.stdout


def test_examples_are_short() -> None:
    assert len((ROOT / "examples" / "forex_trainer.py").read_text().splitlines()) <= 40
