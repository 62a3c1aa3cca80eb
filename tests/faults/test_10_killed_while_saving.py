"""Fault 10: killed at any point of a save."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from faults.saver import is_whole, tree_of
from rookery.training.storage.checkpoint import UNFINISHED, Checkpoints


def saves_until_killed(folder: Path, after: float) -> None:
    """Save again and again in another process, which is killed `after` so many seconds of it."""
    child = os.fork()
    if child == 0:
        try:
            from faults.saver import save_on

            save_on(folder)
        finally:
            os._exit(1)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("kills", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_the_old_or_the_new_one_loads(tmp_path: Path, kills: int) -> None:
    """After each of many kills the newest checkpoint is whole, none was lost on the way, and the best is there."""
    checkpoints, moments = Checkpoints(tmp_path, keep=2), np.random.default_rng(10)
    checkpoints.save(1, tree_of(1), score=1.0)
    newest, found_unfinished = 1, 0
    for _ in range(kills):
        saves_until_killed(tmp_path, float(moments.uniform(0.005, 0.15)))
        found_unfinished += any(tmp_path.glob(f"{UNFINISHED}*"))
        before, newest = newest, max(checkpoints.steps())
        assert newest >= before
        step, tree = checkpoints.load_latest()
        assert step == newest, "the newest checkpoint was not whole"
        assert is_whole(step, tree)
        best, tree = checkpoints.load_best()
        assert is_whole(best, tree)
        assert best % 5 == min(newest, 4) or newest < 5
    assert newest > kills // 10, "hardly anything was saved between the kills"
    assert found_unfinished > kills // 10, "hardly any kill came in the middle of a save"
    checkpoints.save(newest + 1, tree_of(newest + 1))
    assert not any(tmp_path.glob(f"{UNFINISHED}*")), "what the killed ones left was not removed"


@pytest.mark.slow
def test_a_program_that_is_killed_while_saving(tmp_path: Path) -> None:
    """The same for a process of its own, from its first moment on."""
    for moment in np.random.default_rng(11).uniform(0.2, 0.9, 20):
        with subprocess.Popen([sys.executable, "-m", "faults.saver", str(tmp_path)], env=_environment()) as process:
            time.sleep(moment)
            process.kill()
        checkpoints = Checkpoints(tmp_path)
        if checkpoints.steps():
            step, tree = checkpoints.load_latest()
            assert step == max(checkpoints.steps()) and is_whole(step, tree)


def _environment() -> dict[str, str]:
    tests = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)])}
