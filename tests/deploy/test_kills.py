"""Promotions that are killed at random moments: the champion always loads, and the log is true."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.agents import GOOD, MIDDLING, cartpole_run

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "deploy_kills.py"


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("deploy_kills", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_few_kills(tmp_path: Path) -> None:
    """Kills of one deployer, and of two at once."""
    runs = [cartpole_run(tmp_path / "runs", skill).path for skill in (GOOD, MIDDLING)]
    row = _script().measure(tmp_path, 2, 0, random.Random(1), runs)
    assert row["problems"] == []
    assert row["versions"] >= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills() -> None:
    """And kills of the complete command."""
    command = [sys.executable, str(SCRIPT), "--kills", "50", "--deploys", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    row = json.loads(done.stdout[done.stdout.index("{") :])
    assert (done.returncode, row["problems"], row["kills"]) == (0, [], 50)
    assert row["promotions"] > 10


def test_untrue_logs_are_found() -> None:
    """The check of the log can fail."""
    first = {"entry": 1, "what": "add", "version": 1}
    second = {"entry": 2, "what": "promote", "version": 1, "from": None, "to": 1}
    check = _script().untrue_entries
    assert list(check([first, second], {"champion": 1})) == []
    assert list(check([first], {"champion": 1}))  # a promotion that the log lacks
    assert list(check([first, second], {"challenger": 1}))  # one that never happened
    assert list(check([first, {**second, "from": 4}], {"champion": 1, "previous": 4}))
