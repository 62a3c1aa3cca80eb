"""How large the house is, and how it is laid out: `make bench-house`, or

    python benchmarks/house.py [--json FILE]

Counts lines, files, modules that only one other imports, names that occur twice, the files of the algorithms, and what
chooses and executes them. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Container
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import report

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/rookery"
ALGORITHMS = [PACKAGE / f"learners/algorithms/{name}.py" for name in ("ppo", "sac", "dqn", "td3")]
# What chooses where an algorithm runs and executes it there, with the algorithms themselves.
EXECUTING = (
    "learners/algorithms/*.py", "learners/execution/*.py", "learners/learner.py", "learners/accelerator.py",
    "learners/captured_call.py", "training/run/device_*.py",
)  # fmt: skip
RANKS = "ranks.py"  # how processes reach each other: it knows no learner


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def sources() -> list[Path]:
    """What people read: Python, C and JavaScript."""
    return [path for end in ("py", "c", "h", "js") for path in PACKAGE.rglob(f"*.{end}")]


def importers() -> Counter[str]:
    """By module, how many other modules of the package import it, at the top or inside a function."""
    trees = {module_name(path): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    found: Counter[str] = Counter()
    for name, tree in trees.items():
        found.update({module for node in ast.walk(tree) for module in _imported(node, trees)} - {name})
    return found


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(node: ast.AST, modules: Container[str]) -> list[str]:
    """`from package import module` names the module, `from module import name` too."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names if name.name in modules]
    if not isinstance(node, ast.ImportFrom):
        return []
    whole = (f"{node.module}.{name.name}" for name in node.names)
    return [name for name in (name if name in modules else str(node.module) for name in whole) if name in modules]


def repeated_names() -> int:
    """How many files have the name of another one; worlds are siblings of a kind, and may."""
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if "worlds" not in path.parts)
    return sum(count - 1 for name, count in names.items() if not name.startswith("__"))


def executing() -> list[Path]:
    return [path for pattern in EXECUTING for path in PACKAGE.glob(pattern) if path.name != RANKS]


def path_to_gradient() -> int:
    """How many files the page lists from `train` to the first gradient; a test compares the list with the real call."""
    page = (ROOT / "docs/architecture.md").read_text()
    (listed,) = re.findall(r"<!-- path: gradient, at most \d+ -->\n((?:\d+\. .*\n(?:   .*\n)*)+)", page)
    return len(re.findall(r"^\d+\. ", listed, re.MULTILINE))


def rows() -> list[Row]:
    """The table."""
    ones = sum(count == 1 for count in importers().values())
    return [
        _at_most("lines of Python, C and JavaScript in src", sum(map(lines, sources())), 105_000),
        _at_most("Python files in src", len(list(PACKAGE.rglob("*.py"))), 720),
        _at_most("modules that one other imports", ones, 150),
        *(_at_most(f"lines of {path.name}", lines(path), 220) for path in ALGORITHMS),
        _at_most("lines of algorithms and what executes them", sum(map(lines, executing())), 2_400),
        _at_most("files from `train` to the first gradient step", path_to_gradient(), 25),
        _at_most("files with the name of another", repeated_names(), 5),
    ]


def _at_most(what: str, value: int, limit: int) -> Row:
    return Row(what, f"{value:,}", "", value, limit, "", most=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    sys.exit(report(rows(), "the house", parser.parse_args().json))
