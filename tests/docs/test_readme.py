"""The README's words are true."""

from __future__ import annotations

import re
import subprocess
import sys

from docs.pages import blocks

EXAMPLES = blocks("README.md", "python")


def test_the_first_example_runs(tmp_path):
    """As a script of a stranger's, without a main guard: its workers start as users' do."""
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[0])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert 5 < float(done.stdout) < 100  # a random policy's return in CartPole
    hint, chosen = done.stderr.splitlines()
    assert "rookery/CartPole-v1" in hint and "backend=" in chosen


def test_the_hockey_example_runs(capsys):
    """A million steps of hockey, which nobody wins by moving at random."""
    exec(EXAMPLES[1], {})
    games, mean_return = re.fullmatch(r"(\d+) games, mean return (-?[\d.]+)\n", capsys.readouterr().out).groups()
    assert int(games) > 4000 and -30 < float(mean_return) < -5


def test_the_kernel_world_runs():
    """The world in a few lines, stepped a little."""
    scope = {"__name__": "__main__"}
    exec(EXAMPLES[2], scope)
    envs = scope["envs"]
    envs.reset(seed=1)
    for _ in range(100):
        envs.step(envs.action_space.sample())
    assert envs.backend == "kernel" and len(envs.finished_episodes()) > 0
