"""An algorithm's file contains the algorithm alone: whoever reads it meets neither devices nor how it is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.learners import algorithms

FOLDER = Path(algorithms.__file__).parent
ALGORITHMS = ("ppo", "sac", "dqn", "td3", "pqn", "xqc")
FILES = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")
LINES = 220
WORDS = r"accelerator|captur|kernel|cuda|triton|\bgpu|numba|\.type\b|is_cuda"


def imported(tree: ast.AST) -> Iterator[str]:
    """All modules that a file imports, those of functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_all_algorithms_are_there() -> None:
    assert {path.stem for path in FILES} >= set(ALGORITHMS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_imports_neither_execution_nor_kernels(path: Path) -> None:
    found = [name for name in imported(ast.parse(path.read_text())) if re.search(r"\.(execution|kernels)\b", name)]
    assert not found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_has_no_word_of_how_it_is_executed(path: Path) -> None:
    found = [line for line in path.read_text().splitlines() if re.search(WORDS, line, re.IGNORECASE)]
    assert not found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_takes_tensors_for_tensors(path: Path) -> None:
    """Nothing is decided by whether a value is a tensor, and no field is sometimes one."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            assert "Tensor" not in ast.unparse(node.args[1]), ast.unparse(node)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            assert "float | Tensor" not in ast.unparse(node.annotation), ast.unparse(node)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_whole_algorithm_is_in_its_file(name: str) -> None:
    """Networks, acting, targets and the gradient step."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    target = "targets" if name in ("ppo", "pqn") else "td_target"
    assert defined >= {"networks", "act", target, "gradient_step"} and any("loss" in each for each in defined)
