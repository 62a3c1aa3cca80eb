"""What quick commands do not import: each of these takes longer than the command itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rookery
from rookery.cli.main import main
from training.storage.stored import stored_run

SLOW = {"numpy", "gymnasium", "rich", "torch", "numba", "scipy", "matplotlib", "pandas", "optuna", "ray", "PIL"}
CONFIG = {"pydantic", "multiprocessing", "importlib.metadata"}
COMPILERS = {"scipy.linalg", "numba.np.arraymath", "torch._dynamo", "torch._inductor", "torch.onnx", "triton"}
CODE = """
import atexit, sys, rookery.cli.main
atexit.register(lambda: print(*{heavy!r} & sys.modules.keys(), "and no more"))
sys.exit(rookery.cli.main.main({words!r}))
"""


def imported_by(words: str, heavy: set[str], folder: Path) -> str:
    code = CODE.format(words=words.split(), heavy=heavy)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("--help", SLOW | CONFIG | {"psutil"}),
        ("--version", SLOW | CONFIG | {"rookery.worlds"}),
        ("train --help", SLOW),
        ("eval --help", SLOW | CONFIG),
        ("watch --help", SLOW | CONFIG),
        ("runs", SLOW | CONFIG),
        ("runs --json", SLOW | CONFIG),
    ],
)
def test_quick_commands_import_little(words: str, heavy: set[str], tmp_path: Path) -> None:
    """Neither torch nor any compiler; most of them not even the configuration."""
    stored_run(tmp_path / "runs", "cart", (10.0, 20.0))
    assert imported_by(words, heavy, tmp_path) == "and no more"


@pytest.mark.slow
def test_an_evaluation_imports_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its code is compiled. It draws nothing, and searches nothing."""
    rookery.train("CartPole-v1", steps=512, runs_dir=tmp_path / "runs", name="cart", verbose=0)
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "cart", "--episodes", "1"]) == 0
    heavy = COMPILERS | {"matplotlib", "rich", "pandas", "optuna", "ray", "tensorboard"}
    assert imported_by("eval cart --episodes 1", heavy, tmp_path) == "and no more"
