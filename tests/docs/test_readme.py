"""The README's words are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(folder, code):
    """An example in a file, as a stranger would try it."""
    script = folder / "example.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_the_first_example_runs(tmp_path):
    """The ten lines at the top."""
    done = run(tmp_path, EXAMPLES[0])
    assert 5 < float(done.stdout) < 100  # a random policy's return in CartPole
    hint, chosen = done.stderr.splitlines()
    assert "twin" in hint and "backend=" in chosen


def test_the_hockey_example_runs(tmp_path):
    """A million steps of hockey, which nobody wins by moving at random."""
    done = run(tmp_path, EXAMPLES[1])
    games, mean_return = re.fullmatch(r"(\d+) games, mean return (-?[\d.]+)\n", done.stdout).groups()
    assert int(games) > 4000 and -30 < float(mean_return) < -5
    assert all("compiling" in line for line in done.stderr.splitlines())  # nothing but that, the first time


def test_the_kernel_world_runs(tmp_path):
    """The world in a few lines, stepped a little."""
    more = """
envs.reset(seed=1)
for _ in range(100):
    envs.step(envs.action_space.sample())
print(envs.backend, len(envs.finished_episodes()))
"""
    assert run(tmp_path, EXAMPLES[2] + more).stdout.startswith("kernel ")


def test_the_commands_exist():
    """Every `rookery` command in the README is one that the program knows."""
    named = set(re.findall(r"^rookery (\w+)", README, re.MULTILINE))
    known = subprocess.run(
        [sys.executable, "-m", "rookery", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert named
    assert all(re.search(rf"^\s+{name}\s", known, re.MULTILINE) for name in named)


@pytest.mark.parametrize("link", re.findall(r"\]\((\w[^):]*)\)", README))
def test_links_lead_somewhere(link):
    """Pages and pictures are where the README says, with the headings that it names."""
    path, _, anchor = link.partition("#")
    file = Path(__file__).parents[2] / path
    assert file.is_file()
    if anchor:
        headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
