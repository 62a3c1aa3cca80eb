"""The user's own code on nodes that do not have it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import rookery
from cluster.in_process import InProcess, use
from rookery.cluster import remote_collectors
from rookery.cluster.node_facts import Contents, folder_for, read_files, use_files
from rookery.cluster.ray_start import open_ray
from rookery.errors import RunError
from rookery.user_code import SHIPPED, file_here, find_in_file
from training.runs import differences, last_state, small

pytestmark = pytest.mark.usefixtures("all_allowed")

WORLD = """
import numpy as np
from beside import REWARD
import gymnasium


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1, 1), 0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place, self.steps = self.place + (0.1 if action else -0.1), self.steps + 1
        return np.array([self.place], np.float32), REWARD * self.place, self.steps == 20, False, {}
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with a world, which imports another one beside it."""
    monkeypatch.setenv(SHIPPED, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "beside.py").write_text("REWARD = 0.5\n")
    file = tmp_path / "code" / "walk.py"
    file.write_text(WORLD)
    copies = folder_for(read_files([str(file)]))
    yield file
    sys.modules.pop("beside", None)
    shutil.rmtree(copies, ignore_errors=True)


def move_away(world: Path) -> None:
    world.parent.rename(world.parent.with_name("gone"))


def test_what_a_node_lacks_is_used_from_elsewhere(world: Path) -> None:
    """In the process that received it, and in those that it starts."""
    contents = read_files([str(world)])
    assert set(contents) == {str(world), str(world.parent / "beside.py")}
    move_away(world)
    use_files([str(world)], contents)
    copy = file_here(str(world))
    assert copy.is_relative_to(folder_for(contents)) and copy.read_text() == WORLD
    assert find_in_file(f"{world}:Walk", "world").__name__ == "Walk"
    code = (
        "from rookery import gate, user_code; gate.follow_parent(); "
        f"print(user_code.find_in_file({str(world) + ':Walk'!r}, 'world').__module__)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("rookery_file_walk_")


def test_a_node_that_has_the_file_keeps_its_own(world: Path) -> None:
    """Whatever was sent."""
    use_files([str(world)], {str(world): b"raise SystemExit"})
    assert file_here(str(world)) == world and not os.environ[SHIPPED]


def test_another_file_there_is_refused(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is changed while the run begins, for example."""

    def changed(named: Sequence[str]) -> Contents:
        found = read_files(named)
        monkeypatch.setattr(InProcess, "start", start_with_another_file)
        return found

    def start_with_another_file(self: InProcess, index: int) -> str:
        world.write_text(WORLD + "\n# changed\n")
        return start(self, index)

    start = InProcess.start
    monkeypatch.setattr(remote_collectors, "read_files", changed)
    use(InProcess(), monkeypatch)
    with pytest.raises(RunError, match=r"has another .*walk\.py"):
        run(tmp_path, world, "changed", 2)


def run(folder: Path, world: Path, name: str, collectors: int | None = None) -> Any:
    options: dict[str, Any] = {"world": f"{world}:Walk", "backend": "serial", "device": "cpu", "steps": 4 * 16 * 4}
    if collectors is not None:
        options |= {"cluster": {"kind": "ray", "nodes": collectors}}
    return rookery.train(small("ppo", folder, name=name, **options))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_it_reaches_the_nodes_of_ray(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process finds the file at its path from when it was read; the weights are those of one machine."""
    alone = run(tmp_path, world, "alone")

    def read_and_move(named: Sequence[str]) -> Contents:
        found = read_files(named)
        monkeypatch.setattr(remote_collectors, "facts_here", facts_then_move)
        return found

    def facts_then_move(files: list[str]) -> Any:
        found = facts_here(files)
        move_away(world)
        return found

    facts_here = remote_collectors.facts_here
    monkeypatch.setattr(remote_collectors, "read_files", read_and_move)
    with open_ray(None):
        shipped = run(tmp_path, world, "shipped", 2)
    assert not world.exists() and shipped.total_steps == 4 * 16 * 4
    assert not differences(last_state(alone.path), last_state(shipped.path))
    assert shipped.episodes == alone.episodes
