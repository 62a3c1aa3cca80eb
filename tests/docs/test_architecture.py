"""docs/architecture.md describes the code as it is, and the glossary has every error."""

from __future__ import annotations

import ast
import re
import tomllib
import traceback
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import rookery
from docs.pages import PAGES, ROOT, SRC, section

PAGE = "docs/architecture.md"
MOST_EQUAL_FILE_NAMES = 5
STARTERS = [SRC / "engine/workers/launcher.py", SRC / "engine/workers/linux.py"]  # of worker processes


@cache
def public_classes() -> dict[str, list[Path]]:
    """Every public class at the top level of a module, and the files that define one of that name."""
    found: dict[str, list[Path]] = {}
    for path in SRC.rglob("*.py"):
        for name in re.findall(r"^class ([a-zA-Z]\w*)", path.read_text(), re.MULTILINE):
            found.setdefault(name, []).append(path)
    return found


@cache
def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it, and those that it names as text to load them later."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])
    return found


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")


def test_files_on_the_page_exist():
    """Every path in backticks is a file or folder of the package, or of the repository."""
    paths = set(re.findall(r"`([\w./]+(?:\.py|\.toml|/))`", PAGES[PAGE]))
    assert len(paths) > 40
    missing = [path for path in paths if not (SRC / path).exists() and not (ROOT / path).exists()]
    assert not [path for path in missing if "NAME" not in path]


@pytest.mark.parametrize(("name", "most"), [("train", 8), ("gradient", 25), ("step", 6)])
def test_paths_are_short_and_real(name, most):
    """Each file is imported by a file before it (a worker by what starts its process), or imports the one before it."""
    files = path_on_the_page(name, most)
    assert 3 <= len(files) <= most
    reached = imports(files[0])
    for before, file in pairwise(files):
        assert module_of(file) in reached or module_of(before) in imports(file), f"{file}: nothing before imports it"
        reached |= imports(file)
        for starter in STARTERS:
            if module_of(starter) in reached:
                reached |= imports(starter)


def path_on_the_page(name: str, most: int) -> list[Path]:
    (listed,) = re.findall(rf"<!-- path: {name}, at most {most} -->\n((?:\d+\. .*\n(?:   .*\n)*)+)", PAGES[PAGE])
    return [SRC / path for path in re.findall(r"^\d+\. `([^`]+)`", listed, re.MULTILINE)]


def test_the_first_gradient_is_called_by_files_of_its_path(tmp_path, monkeypatch):
    """All frames of ours, from `rookery.train` to torch's `backward`, are of files on the page, and they are named."""
    listed, stack = path_on_the_page("gradient", 25), []

    def backward(*_, **__):
        stack.extend(Path(frame.filename) for frame in traceback.extract_stack())
        raise StopIteration

    monkeypatch.setattr(torch.Tensor, "backward", backward)
    monkeypatch.setattr(torch.autograd, "grad", backward)
    plain = {"accelerate": False, "rollout_length": 16, "threads": 1}
    options = {"backend": "serial", "compiled": False, "num_envs": 2, "device": "cpu", "verbose": False}
    with pytest.raises(StopIteration):
        rookery.train("CartPole-v1", learner="ppo", steps=64, runs_dir=tmp_path, ppo=plain, **options)
    called = list(dict.fromkeys(path for path in stack if path.is_relative_to(SRC)))
    assert called and set(called) <= {*listed}
    numbers = ", ".join(str(listed.index(path) + 1) for path in called)
    assert numbers in " ".join(section(PAGE, "## From `rookery.train` to the first gradient").split())


def test_layers_are_those_of_the_import_contracts():
    """The table of import rules is pyproject's."""
    table = re.search(r"<!-- layers: begin -->\n(.*?)<!-- layers: end -->", PAGES[PAGE], re.DOTALL)
    assert table and table.group(1) == layers()


def layers() -> str:
    """The table, to be pasted."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    columns = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rows = ["| row | all of rookery | `training/` |\n|---|---|---|\n"]
    for number in range(max(map(len, columns))):
        cells = [column[number].split(" | ") if number < len(column) else [] for column in columns]
        rows.append(f"| {number + 1} | {' | '.join(', '.join(f'`{name}`' for name in cell) for cell in cells)} |\n")
    return "".join(rows)


def test_every_error_is_in_the_glossary():
    """All that rookery raises on purpose."""
    errors = {name for name, homes in public_classes().items() if SRC / "errors.py" in homes}
    assert errors - set(re.findall(r"`(\w+)`", section("docs/glossary.md", "## Errors"))) == set()


def test_terms_are_in_order():
    """A reader finds a term by the alphabet."""
    terms = re.findall(r"^\| ([^|]+) \|", section("docs/glossary.md", "## Terms"), re.MULTILINE)[2:]
    assert len(terms) > 40 and terms == sorted(terms)


def test_no_two_public_classes_have_one_name():
    """So that a name in a message or a docstring means one class."""
    assert not {name: homes for name, homes in public_classes().items() if len(homes) > 1}


def test_file_names_are_unique():
    """So that a reader finds a file by its name. Worlds are siblings of a kind, and may share file names."""
    names = Counter(
        path.name
        for path in SRC.rglob("*.py")
        if not path.name.startswith("__") and path.relative_to(SRC).parts[0] != "worlds"
    )
    assert sum(count - 1 for count in names.values()) <= MOST_EQUAL_FILE_NAMES
