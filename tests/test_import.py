"""Importing rookery and stepping envs changes nothing global: neither logging nor the number of torch's threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.slow
def test_a_run_on_a_gpu_starts_without_compilers() -> None:
    """Neither Numba nor torch's compiler is imported before something is compiled: they take seconds of a start."""
    code = """
import sys, torch
import rookery.training.run.train
from rookery.learners.kernels.gpu.precision import Products
from gymnasium.spaces import Box, Discrete
from rookery.learners.registry import PPOOptions
from rookery.training.run.out_of_memory import learner_size
with Products("auto", True, torch.device("cuda"), images=False):
    pass
for kind in ("cnn", "impala"):
    options = PPOOptions(images=kind)
    learner_size("ppo", Box(0, 255, (84, 84), "uint8"), Discrete(2), options, 1)
print([name for name in ("numba", "torch._dynamo", "triton", "matplotlib") if name in sys.modules])
"""
    answer = run(code)
    assert answer.stdout.strip() == "[]", answer.stdout + answer.stderr


def test_gymnasium_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, rookery.errors; from rookery.cli.main import build_parser; build_parser(); "
    answer = run(code + "print([name for name in ('gymnasium', 'numpy', 'torch', 'numba') if name in sys.modules])")
    assert answer.stdout == "[]\n", answer.stdout + answer.stderr


def test_star_imports_need_no_stable_baselines3() -> None:
    missing = (
        "import importlib.util as util; found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'stable_baselines3' else found(name, *more)\n"
    )
    answer = run(missing + "import rookery; print({'sb3', 'pettingzoo'} & {*rookery.__all__})")
    assert answer.stdout == "{'pettingzoo'}\n", answer.stderr


@pytest.mark.slow
def test_envs_are_registered_whichever_is_imported_first() -> None:
    made = "print(gymnasium.make('rookery/CartPole-v1').unwrapped.spec.id)"
    for imports in ("import rookery, gymnasium; ", "import gymnasium, rookery; ", "import rookery.errors, gymnasium; "):
        answer = run(imports + made)
        assert answer.stdout == "rookery/CartPole-v1\n", answer.stderr


def test_errors_of_gymnasium_are_found_among_ours() -> None:
    code = """
import pickle, sys
from rookery import errors
from rookery.errors import EngineClosed
import gymnasium
assert issubclass(EngineClosed, gymnasium.error.ClosedEnvironmentError) and issubclass(EngineClosed, errors.UsageError)
assert "ResetNeeded" in dir(errors) and not hasattr(errors, "NoSuchError")
print(EngineClosed, pickle.loads(pickle.dumps(errors.CallPending("it waits", "reset"))))
"""
    assert run(code).stdout == "<class 'rookery.errors.EngineClosed'> it waits\n"
