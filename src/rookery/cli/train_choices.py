"""What `rookery train` prints without a world: what could be trained here."""

from __future__ import annotations

import ast
import re
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rookery.worlds import registry

USAGE = 2
WIDTH = 100
MOST_FILES = 200  # in the current folder; more are not looked at
LARGEST = 1 << 20  # bytes of a file that is looked at
CONFIGS = (".toml", ".json", ".yaml", ".yml")
NOT_CONFIGS = ("pyproject.toml", "package.json", "package-lock.json")
NEEDS = {"gymnasium.envs.box2d": "Box2D", "gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.phys2d": "jax"}
NEEDS["gymnasium.envs.tabular"] = "jax"
VERSION = re.compile(r"-v([0-9]+)$")
BASES = ("Env", "KernelWorld")


def print_choices(as_json: bool) -> int:
    """Print what could be trained, and one suggestion. Returns the exit status: nothing was trained."""
    found = choices()
    if as_json:
        from rookery import printing

        printing.emit_json(found)
        return USAGE
    print("rookery train needs a world or a config file. Here are:")
    for title, key in (
        ("worlds of rookery", "worlds"),
        ("envs in this folder", "files"),
        ("config files in this folder", "configs"),
        ("Gymnasium ids", "ids"),
    ):
        if found[key]:
            text = f"{title}: {', '.join(found[key])}"
            print(textwrap.fill(text, WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False))
    print(f"Try: {found['suggestion']}")
    return USAGE


def choices() -> dict[str, Any]:
    """The names of worlds, ids, and files of the current folder, and one command to begin with."""
    files = sorted(path for path in Path().iterdir() if path.is_file())[:MOST_FILES]
    envs = [name for path in files if path.suffix == ".py" for name in _envs_in(path)]
    configs = [
        str(path) for path in files if path.suffix in CONFIGS and path.name not in NOT_CONFIGS and _names_world(path)
    ]
    first = (envs or configs or ["CartPole-v1"])[0]
    worlds = [name for name in registry.names()]
    return {
        "worlds": worlds, "files": envs, "configs": configs, "ids": _ids(), "suggestion": f"rookery train {first}",
    }  # fmt: skip


def _ids() -> list[str]:
    """The newest version of each id whose package is installed."""
    import gymnasium as gym

    newest: dict[str, tuple[int, str]] = {}
    for name, spec in gym.registry.items():
        version = VERSION.search(name)
        number = int(version[1]) if version else 0
        title = VERSION.sub("", name)
        if not name.startswith("rookery/") and _is_installed(spec) and number >= newest.get(title, (-1, ""))[0]:
            newest[title] = number, name
    return sorted(name for _, name in newest.values() if not name.startswith("GymV"))


def _is_installed(spec: Any) -> bool:
    entry = spec.entry_point if isinstance(spec.entry_point, str) else ""
    return all(find_spec(package) is not None for module, package in NEEDS.items() if entry.startswith(module))


def _names_world(path: Path) -> bool:
    """Whether a file looks like a configuration of a run."""
    try:
        text = path.read_text() if path.stat().st_size <= LARGEST else ""
    except (OSError, ValueError):
        return False
    return re.search(r"""^\s*["']?(world|curriculum)["']?\s*[=:]""", text, re.MULTILINE) is not None


def _envs_in(path: Path) -> list[str]:
    """Classes that look like envs, by their text: nothing is imported."""
    try:
        tree = ast.parse(path.read_text() if path.stat().st_size <= LARGEST else "")
    except (OSError, ValueError, SyntaxError, RecursionError):
        return []
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [f"{path}:{node.name}" for node in classes if any(_base(base).endswith(BASES) for base in node.bases)]


def _base(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
