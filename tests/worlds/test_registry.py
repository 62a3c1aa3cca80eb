"""Worlds are known by name through one registry entry each, which is read without importing the world."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from rookery.lazy import load_object
from rookery.worlds import registry
from rookery.worlds.world_spec import WorldSpec

SOURCE = Path(registry.__file__).parents[1]
PLACES = ("recipes", "kernel_class", "viewer")


def test_no_other_room_names_a_world():
    """`training`, `cli` and `config` know worlds by way of the registry alone."""
    named = re.compile(r"hockey|game_?boy", re.IGNORECASE)
    files = [path for room in ("training", "cli", "config") for path in (SOURCE / room).rglob("*.py")]
    assert len(files) > 50
    found = [
        f"{path}:{k}" for path in files for k, line in enumerate(path.read_text().splitlines(), 1) if named.search(line)
    ]
    assert not found and not [path for path in files if named.search(path.name)]


def test_reading_the_registry_imports_nothing_heavy():
    code = (
        "import json, sys; from rookery.worlds import registry; registry.specs();"
        "print(json.dumps([name for name in sys.modules if name.partition('.')[0] in"
        " ('torch', 'numba', 'pygame', 'pyboy', 'pydantic') or name.startswith('rookery.kernel')]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == []


@pytest.mark.parametrize("spec", registry.BUILT_IN, ids=lambda spec: spec.name)
def test_what_a_spec_names_is_there(spec):
    """Places, Gymnasium ids and folders."""
    for place in [getattr(spec, name) for name in PLACES] + [*spec.envs.values(), *spec.kernels.values()]:
        assert place is None or load_object(place) is not None
    assert spec.source in gym.registry and spec.source in {**spec.envs, **spec.kernels}
    assert spec.original is None or spec.original in gym.registry
    if spec.two_player is not None:
        assert spec.two_player.source in gym.registry
        observation_space, action_space = spec.two_player.load_spaces()
        assert observation_space.shape and action_space.shape
    if spec.agent is not None:
        assert (spec.agent.path / "manifest.json").is_file()
    if spec.game is not None:
        assert callable(load_object(spec.game.function))
    if spec.commands is not None:
        assert callable(load_object(f"{spec.commands}:add_commands"))


def test_lookups():
    assert registry.get("HOCKEY") is registry.get("hockey") and registry.get("nothing") is None
    assert registry.get("cartpole-v1") is None, "a Gymnasium id is not a short name"
    assert registry.compiled_version("CartPole-v1").source == "rookery/CartPole-v1"
    assert registry.by_source("rookery/Hockey-v0") is registry.by_source("rookery/HockeyOne-v0")
    assert registry.by_source(object) is None
    assert registry.default_game().name == registry.curriculum_world() == "hockey"


# --- worlds of other packages -------------------------------------------------------------------------------------

MAZE = WorldSpec("maze", "maze/Maze-v0", envs={"maze/Maze-v0": "maze_package:Maze"})
TAKEN = WorldSpec("hockey", "maze/Maze-v0")
NOT_A_SPEC = 7


@pytest.fixture
def plugins(monkeypatch, tmp_path):
    """Let the registry find these attributes of this module as plugins of an installed package."""

    def install(*names):
        installed = tmp_path / "maze-1.0.dist-info"
        installed.mkdir()
        lines = [f"{name.lower()} = {__name__}:{name}" for name in names]
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: maze\nVersion: 1.0\n")
        (installed / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, ""]))
        monkeypatch.syspath_prepend(tmp_path)
        registry._plugins.cache_clear()

    yield install
    registry._plugins.cache_clear()
    gym.registry.pop("maze/Maze-v0", None)


def test_a_plugin_is_known_by_name(plugins):
    plugins("MAZE")
    assert registry.get("maze") is MAZE and "maze" in registry.names() and "maze" not in registry.names(plugins=False)
    assert "maze/Maze-v0" in gym.registry


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MISSING", "AttributeError"),
        ("NOT_A_SPEC", "TypeError: it should be a rookery.worlds.world_spec.WorldSpec, and is 7"),
        ("TAKEN", "ValueError: its name 'hockey' is taken"),
    ],
)
def test_a_broken_plugin_gives_one_warning_line(plugins, caplog, name, words):
    caplog.set_level("INFO", "rookery")
    plugins(name, "MAZE")
    assert registry.get("maze") is MAZE and registry.get("hockey").source == "rookery/HockeyOne-v0"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"the world '{name.lower()}' (") and words in line
