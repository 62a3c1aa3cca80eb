"""The README's and the tour's words are true."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from docs.pages import PAGES, blocks

TEN_LINES, BALANCE = blocks("README.md", "python")
TOUR = blocks("docs/tour.md", "python")


def run(folder, code):
    """As a script of a stranger's, without a main guard: its workers start as users' do."""
    script = folder / "example.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script], cwd=folder, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_ten_lines_train_an_agent(tmp_path):
    """With a fifth of the steps, which is enough to be much better than random actions."""
    short = TEN_LINES.replace("num_envs=8).agent", "num_envs=8, steps=20_000, verbose=False).agent")
    assert short != TEN_LINES
    assert float(run(tmp_path, short).stdout) > 100


@pytest.mark.slow
def test_the_kernel_world_is_trained_and_exported(tmp_path, monkeypatch):
    """From the file to an agent that needs only NumPy."""
    from rookery.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "balance.py").write_text(BALANCE)
    train, export = re.findall(r"`rookery ((?:train balance|export latest)[^`]+)`", PAGES["README.md"])
    assert main([*train.split(), "--steps", "20000"]) in (None, 0)
    assert main(export.split()) in (None, 0)
    code = "import sys, agent; print(agent.__name__, sorted({'torch', 'rookery', 'gymnasium'} & sys.modules.keys()))"
    assert run(tmp_path, code).stdout == "agent []\n"


@pytest.mark.slow
def test_many_envs_are_stepped(tmp_path):
    done = run(tmp_path, TOUR[0])
    assert 5 < float(done.stdout) < 100  # a random policy's return in CartPole
    hint, chosen = done.stderr.splitlines()
    assert "rookery/CartPole-v1" in hint and "backend=" in chosen


@pytest.mark.slow
def test_the_hockey_example_runs(capsys):
    """A million steps of hockey, which nobody wins by moving at random."""
    exec(TOUR[1], {})
    games, mean_return = re.fullmatch(r"(\d+) games, mean return (-?[\d.]+)\n", capsys.readouterr().out).groups()
    assert int(games) > 4000 and -30 < float(mean_return) < -5


def test_speeds_are_those_of_the_benchmarks():
    """Each figure of the README's table is on the page of all figures, with its command, measured on such a machine."""
    rows = re.findall(r"^\| [^|]+ \| ([^|]*\d[^|]*) \| ([^|]+) \| `(make [^`]+)` \|", PAGES["README.md"], re.MULTILINE)
    page = PAGES["docs/benchmarks.md"]
    assert len(rows) == 4
    for ours, peer, command in rows:
        (measured,) = [part for part in page.split("\n## ") if re.search(rf"^{command} ", part, re.MULTILINE)][-1:]
        assert "one 2-core x86" in measured, command
        peers = re.search(r"\d.*", peer.replace("Stable-Baselines3", "SB3 ").removeprefix("SB3 "))[0]
        assert ours in measured and peers in measured, (ours, peers)
