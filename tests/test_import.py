"""Importing rookery and stepping envs changes nothing global: neither logging nor the number of torch's threads."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import logging, torch

def state():
    loggers = logging.getLogger(), logging.getLogger("rookery")
    settings = [(log.level, list(log.handlers), list(log.filters), log.propagate, log.disabled) for log in loggers]
    return settings, logging.root.manager.disable, torch.get_num_threads(), torch.get_num_interop_threads()

before = state()
import rookery
assert state() == before, "changed by the import"
envs = rookery.make_vec("CartPole-v1", num_envs=2)
envs.reset(seed=0)
envs.step(envs.action_space.sample())
envs.close()
assert state() == before, "changed by make_vec"
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_nothing_global_changes() -> None:
    """The choice that make_vec made is printed nevertheless."""
    answer = run(CODE)
    assert answer.returncode == 0, answer.stderr
    assert "rookery: backend=" in answer.stderr


def test_notes_go_where_the_program_sends_them() -> None:
    """To its handlers if it has any, and nowhere if it silences them."""
    note = "from rookery.console import say; say('a note')"
    to_stdout = "import logging, sys; logging.basicConfig(stream=sys.stdout, level='INFO'); "
    answer = run(to_stdout + note)
    assert (answer.stdout, answer.stderr) == ("INFO:rookery:a note\n", "")
    answer = run("import logging; logging.getLogger('rookery').setLevel('WARNING'); " + note)
    assert (answer.stdout, answer.stderr) == ("", "")
    assert run("import sys; sys.stderr.close(); " + note).returncode == 0


def test_a_run_on_a_gpu_starts_without_compilers() -> None:
    """Neither Numba nor torch's compiler is imported before something is compiled: they take seconds of a start."""
    code = """
import sys, torch
import rookery.training.run.train
from rookery.learners.device.precision import Products
with Products("auto", True, torch.device("cuda"), images=False):
    pass
print([name for name in ("numba", "torch._dynamo", "triton", "matplotlib") if name in sys.modules])
"""
    answer = run(code)
    assert answer.stdout.strip() == "[]", answer.stdout + answer.stderr
