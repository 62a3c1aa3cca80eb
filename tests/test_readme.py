"""The README's words are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_first_example_runs(tmp_path):
    """The ten lines at the top, in a file, as a stranger would try them."""
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert code is not None
    script = tmp_path / "first.py"
    script.write_text(code.group(1))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert 5 < float(done.stdout) < 100  # a random policy's return in CartPole
    assert len(done.stderr.splitlines()) == 1  # the line that tells what was chosen


def test_the_commands_exist():
    """Every `rookery` command in the README is one that the program knows."""
    named = set(re.findall(r"^rookery (\w+)", README.read_text(), re.MULTILINE))
    known = subprocess.run(
        [sys.executable, "-m", "rookery", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert named
    assert all(re.search(rf"^\s+{name}\s", known, re.MULTILINE) for name in named)
