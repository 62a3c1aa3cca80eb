"""The GPU's table: its parts, what a failed part costs, and what the peers' output is read as."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import gpu
import gpu_learning
import gpu_peers
import gpu_plot

NO_PEERS = Namespace(peers=None, peer_path=None)


def test_the_scripts_of_all_parts_exist():
    folder = Path(gpu.__file__).parent
    assert [part.script for part in gpu.PARTS.values() if not (folder / part.script).is_file()] == []


def test_a_part_that_fails_is_one_row_that_missed(monkeypatch, tmp_path):
    monkeypatch.setitem(gpu.PARTS, "broken", gpu.Part("no_such_script.py"))
    (row,) = gpu.run_part("broken", NO_PEERS, tmp_path)
    assert not row["passed"] and row["measure"] == "broken: failed" and "no_such_script.py" in row["ours"]


def test_the_rows_of_a_part_are_those_that_its_script_wrote(monkeypatch, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys\nfrom pathlib import Path\n"
        "Path(sys.argv[-1]).write_text(json.dumps([{'measure': 'speed', 'figure': '2x', 'passed': True}]))\n"
    )
    monkeypatch.setitem(gpu.PARTS, "own", gpu.Part(str(script)))
    assert gpu.run_part("own", NO_PEERS, tmp_path) == [
        {"measure": "speed", "figure": "2x", "passed": True, "part": "own"}
    ]
    gpu.print_table(json.loads((tmp_path / "own.json").read_text()))


def test_what_purejaxrl_prints_is_read():
    text = (
        "purejaxrl envs=2048 steps=128 total=100000000 compile=9.1s run=4.40s  2.27e+07 steps/s final return=499.1\n"
        "purejaxrl envs=64 steps=32 total=20000000 compile=9.1s run=4.40s  455000 steps/s final return=20.1\n"
    )
    assert gpu_peers._parsed(text) == {(2048, 128): 2.27e7, (64, 32): 455_000}
    assert gpu_peers.purejaxrl_rates([(64, 32, 1e6)], NO_PEERS) == {}


def test_a_precision_that_learns_less_is_a_miss():
    same, less = [500.0] * 9 + [490.0], [500.0] * 5 + [300.0] * 5
    assert gpu_learning.standard_errors_behind(same, same) == 0.0
    assert gpu_learning.standard_errors_behind([2.0, 4.0], [1.0, 3.0]) == 0.0  # learning more is not a miss
    assert gpu_learning.standard_errors_behind(less, same) > gpu_learning.NOISE
    found = {"values": less, "seconds": [1.0] * 10}
    assert not gpu_learning.row_of("ppo-cartpole", "bf16", found, same).passed
    assert gpu_learning.row_of("ppo-cartpole", "float32", {**found, "values": same}, same).passed
    assert not gpu_learning.row_of("ppo-cartpole", "bf16", {"values": [], "error": "no GPU"}, same).passed


@pytest.mark.slow
def test_the_drawing_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    curve = {"rookery": [(64, 1e6), (1024, 1e7), (262_144, 3e8)], "PureJaxRL": []}
    gpu_plot.draw(curve, tmp_path / "gpu.png", "a GPU")
    assert (tmp_path / "gpu.png").stat().st_size > 1_000


def test_a_part_that_takes_too_long_is_ended(monkeypatch, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setitem(gpu.PARTS, "slow", gpu.Part(str(script)))
    (row,) = gpu.run_part("slow", NO_PEERS, tmp_path, most=1.0)
    assert row["ours"] == "took longer than 1 s"


@pytest.mark.slow
@pytest.mark.parametrize("name", gpu.PARTS)
def test_the_scripts_of_all_parts_know_their_options(name):
    """`--help` after the options of the table: a script that does not know one of them refuses it first."""
    part = gpu.PARTS[name]
    script = str(Path(gpu.__file__).parent / part.script)
    command = [sys.executable, script, *part.arguments, "--json", "rows.json", "--help"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    text = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True).stdout
    assert [option for option in (*part.arguments, "--json") if option.startswith("--") and option not in text] == []
