"""What is too large is rejected before it is made: by size, by depth, and by comparing words with what is there."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.config import collect_config
from rookery.errors import CheckpointError, ConfigError, MemoryShortage, RookeryError
from rookery.training.players.file_player import find_opponent
from rookery.training.storage import checkpoint, checkpoint_files
from rookery.training.storage.checkpoint import LARGEST_AGENT, Checkpoints, load
from rookery.training.storage.run_dir import RunDir
from safety import quickness
from safety.quickness import Stopwatch
from safety.vouching import vouch


@pytest.fixture(autouse=True)
def _quick(trained: Path) -> Iterator[None]:
    """After a run, so that nothing is imported or compiled for the first time."""
    stopwatch = Stopwatch()
    yield
    assert not stopwatch.took_long()


def test_a_slow_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    stopwatch = Stopwatch()
    assert not stopwatch.took_long()
    monkeypatch.setattr(quickness, "TIMES", 1)
    sum(number * number for number in range(1_000_000))
    assert stopwatch.took_long()
    monkeypatch.undo()


# --- configurations ---------------------------------------------------------------------------------------------------

CHAIN = "".join(f"x{k}: &x{k} [{', '.join([f'*x{k - 1}'] * 9)}]\n" for k in range(1, 20))
MERGES = "".join(f"x{k}: &x{k} {{<<: [{', '.join([f'*x{k - 1}'] * 9)}]}}\n" for k in range(1, 20))
TOO_LARGE = {
    "aliases.yaml": f"x0: &x0 [1, 2]\n{CHAIN}",
    "merges.yaml": f"x0: &x0 {{a: 1}}\n{MERGES}",
    "itself.yaml": "world: &a [*a]",
    "deep.yaml": "world: " + "[" * 20_000,
    "many.yaml": "world: [" + "1, " * 60_000 + "1]",
    "dots.toml": "a." * 200_000 + "a = 1",
    "dots in a table.toml": "x = {" + "a." * 200_000 + "a = 1}",
    "many dots.toml": "\n".join("a." * 250 + f"b{k} = 1" for k in range(300)),
    "deep.toml": "a = " + "[" * 400_000,
    "dots.json": json.dumps({"a." * 200_000 + "a": 1}),
    "key.json": json.dumps({"a" * 400_000: 1}),
    "deep.json": '{"world": ' + "[" * 400_000,
    "tables.json": '{"world": ' + '{"a": ' * 50 + "1" + "}" * 51,
    "keys.json": json.dumps({f"k{k}": k for k in range(30_000)}),
    "unknown keys.json": json.dumps({f"k{k}": k for k in range(15_000)}),
    "text.json": json.dumps({"world": "a" * 500_000}),
    "null.json": json.dumps({"world": "a\0b"}),
    "number.json": json.dumps({"world": "CartPole-v1", "steps": 10**400}),
    "float.json": json.dumps({"world": "CartPole-v1", "steps": 1e300}),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_configuration_that_nobody_wrote_is_refused(tmp_path: Path, name: str) -> None:
    """Before it is expanded, with the file's name, in a short message."""
    (tmp_path / name).write_text(TOO_LARGE[name])
    with pytest.raises(ConfigError, match=name.partition(".")[0]) as caught:
        collect_config(tmp_path / name)
    assert len(str(caught.value)) < 50_000


def test_configurations_from_elsewhere_are_checked_as_well() -> None:
    """As a dict, and on the command line."""
    deep: dict[str, Any] = {}
    for _ in range(2_000):
        deep = {"a": deep}
    with pytest.raises(ConfigError, match="nested too deeply"):
        collect_config({"world": "CartPole-v1", "world_options": deep})
    with pytest.raises(ConfigError, match="a key of 400,001 characters"):
        collect_config("CartPole-v1", ["a." * 200_000 + "a=1"])
    with pytest.raises(ConfigError):
        collect_config("CartPole-v1", ["world_options=" + "[" * 100_000])


def test_aliases_of_a_reasonable_size_are_fine(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("world: CartPole-v1\nppo: &p {gamma: 0.9}\nsac: {<<: *p, tau: 0.1}\ndqn: *p")
    given = collect_config(tmp_path / "run.yaml")
    assert given["sac"] == {"gamma": 0.9, "tau": 0.1} and given["dqn"] == {"gamma": 0.9}


def test_nets_that_memory_cannot_hold_are_refused(tmp_path: Path) -> None:
    """Before a run has a folder."""
    for hidden in ([2**20, 2**20], [2**30] * 4):
        with pytest.raises(MemoryShortage, match=r"ppo\.hidden"):
            rookery.train("CartPole-v1", ppo={"hidden": hidden}, runs_dir=str(tmp_path / "runs"))
    with pytest.raises(ConfigError, match=r"ppo\.hidden"):
        rookery.train("CartPole-v1", ppo={"hidden": [1] * 5_000}, runs_dir=str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


# --- agents -----------------------------------------------------------------------------------------------------------


def _nested(depth: int) -> dict[str, Any]:
    space: dict[str, Any] = {"kind": "Discrete", "n": 2, "start": 0}
    for _ in range(depth):
        space = {"kind": "Tuple", "parts": {"0": space}}
    return space


DISCRETE = {"kind": "Discrete", "n": 2, "start": 0}
LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "100,000 layers": lambda agent: agent["options"].update(hidden=[1] * 100_000),
    "a matrix of 160 GB": lambda agent: agent["options"].update(hidden=[200_000, 200_000]),
    "a wide observation": lambda agent: agent.update(observation_space={"kind": "Discrete", "n": 10**12, "start": 0}),
    "a large observation": lambda agent: agent.update(observation_space={"kind": "MultiBinary", "n": [10**6, 10**6]}),
    "many parts": lambda agent: agent.update(
        observation_space={"kind": "Tuple", "parts": {str(k): DISCRETE for k in range(20_000)}}
    ),
    "deep parts": lambda agent: agent.update(observation_space=_nested(300)),
    "an odd type": lambda agent: agent["observation_space"].update(dtype="S1000000000"),
    "a large memory": lambda agent: agent["options"].update(recurrent=2**30),
    "an unknown learner": lambda agent: agent.update(learner="os"),
    "no spaces": lambda agent: agent.pop("action_space"),
    "no arrays": lambda agent: agent.update(policy={}),
    "an array too many": lambda agent: agent["policy"].update(more=np.zeros(3)),
    "numbers for arrays": lambda agent: agent.update(policy=dict.fromkeys(agent["policy"], 1.0)),
    "other numbers": lambda agent: agent["policy"].update({"actor.layers.0.bias": np.zeros(16, np.complex64)}),
    "nothing": lambda agent: agent.clear(),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("lie", LIES)
def test_an_agent_that_is_not_what_it_says_is_passed_over(
    run: RunDir, lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint before is taken instead of the best and newest, and that is told; alone, it is a
    CheckpointError."""
    step, tree = Checkpoints(run.checkpoints).load_latest()
    good = rookery.load(run.path).act([[0.1] * 4] * 3, deterministic=True)
    hostile = copy.deepcopy(tree)
    LIES[lie](hostile["agent"])
    place = Checkpoints(run.checkpoints, keep=9).save(step + 64, hostile, score=1e9)
    with caplog.at_level("INFO"):
        assert (rookery.load(run.path).act([[0.1] * 4] * 3, deterministic=True) == good).all()
        assert rookery.resume(run.path, steps=step).total_steps == step
    assert f"using the checkpoint of step {step}" in caplog.text
    with pytest.raises(RookeryError):
        find_opponent(str(place))
    with pytest.raises(CheckpointError):
        checkpoint_alone(run, place)


def checkpoint_alone(run: RunDir, place: Path) -> None:
    for other in run.checkpoints.iterdir():
        if other != place:
            other.rename(run.path / f"moved-{other.name}")
    rookery.load(run.path)


HEADERS = {
    "a length beyond the file": (2**62).to_bytes(8, "little") + b"{}",
    "a header of nothing": b"",
    "no JSON": (8).to_bytes(8, "little") + b"\x80\x04\x95hello",
    "deep": (40_000).to_bytes(8, "little") + b"[" * 40_000,
    "an endless array": b'{"a": {"dtype": "F32", "shape": [4611686018427387904], "data_offsets": [0, 4]}}',
    "a negative shape": b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
    "beyond the end": b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4000000]}}',
    "an odd type": b'{"a": {"dtype": "F8_E5M2", "shape": [4], "data_offsets": [0, 4]}}',
    "a path": b'{"../../a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
    "empty and endless": b'{"a": {"dtype": "F32", "shape": [0, 4611686018427387904, 8], "data_offsets": [0, 0]}}',
}


@pytest.mark.parametrize("header", HEADERS)
def test_arrays_with_hostile_headers_are_refused(tmp_path: Path, header: str) -> None:
    """Also where the manifest vouches for them."""
    folder = tmp_path / "step-000000000001"
    checkpoint.save(folder, {"agent": {"a": np.ones(1)}})
    raw = HEADERS[header]
    data = len(raw).to_bytes(8, "little") + raw + b"\0" * 4 if raw.startswith(b'{"') else raw
    vouch(folder, "agent.safetensors", data)
    with pytest.raises(CheckpointError):
        load(folder)


def test_files_of_impossible_sizes_are_not_even_hashed(tmp_path: Path) -> None:
    """A file of holes takes no room, and minutes to be looked at."""
    folder = tmp_path / "step-000000000001"
    checkpoint.save(folder, {"agent": {"a": np.ones(1)}})
    os.truncate(folder / "agent.safetensors", LARGEST_AGENT + 1)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"]["agent.safetensors"]["bytes"] = LARGEST_AGENT + 1
    (folder / "manifest.json").unlink()
    checkpoint_files.write_manifest(folder, manifest["files"], None)
    with pytest.raises(CheckpointError, match="larger than any file of its kind"):
        load(folder)
