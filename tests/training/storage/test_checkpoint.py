"""Checkpoints: what goes in comes out, and what is not whole is not there."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
from collections import namedtuple

import numpy as np
import pytest

from rookery.errors import CheckpointError, OptionError
from rookery.training.storage import checkpoint, checkpoint_files
from rookery.training.storage.checkpoint import Checkpoints

TREE = {"agent": {"weights": np.arange(6.0).reshape(2, 3)}, "replay": {"rewards": np.ones(1000, np.float32)}, "step": 7}


def same(a, b):
    """Equal to the last bit, in type and order too."""
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return type(a) is type(b) and repr(a) == repr(b)


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


ARRAYS = {
    "zero-d": np.array(2.5),
    "zero-d bool": np.array(True),
    "empty": np.zeros((0, 3), np.int64),
    "empty shape": np.zeros((2, 0), np.float32),
    "transposed": np.arange(12.0).reshape(3, 4).T,
    "strided": np.arange(20, dtype=np.uint32)[::3],
    "backwards": np.arange(5, dtype=np.int16)[::-1],
    "broadcast": np.broadcast_to(np.float32(3), (2, 2)),
    "odd floats": np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324]),
    **{kind: np.array([0, 1, 1], kind) for kind in ("bool", "uint8", "uint32", "uint64", "int8", "int64", "float16")},
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_as_they_were(name, tmp_path):
    """Any shape, layout and number type, bit for bit; and they can be written to."""
    checkpoint.save(tmp_path / "c", {"part": {"array": ARRAYS[name]}})
    array = checkpoint.load(tmp_path / "c")["part"]["array"]
    assert same(array, ARRAYS[name].copy(order="C"))
    assert array.flags.writeable


PLAIN = {
    "floats": [float("nan"), float("inf"), -float("inf"), -0.0, 0.1, 5e-324, 1e308],
    "large": 2**127 + 1,
    "generator": np.random.default_rng(5).bit_generator.state,
    "words": ["", "ä", "\ud800", "\x00", '"'],
    "nested": [[1, [True, None]], []],
    "nothing": {},
    "none": None,
    "bool": True,
    "one": 1,
    "one as float": 1.0,
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_values_come_back_as_they_were(name, tmp_path):
    """NaN and infinity, integers of any size, any text, and True is not 1."""
    tree = {"part": {"before": 1, "value": PLAIN[name], "array": np.ones(2), "after": 2}}
    checkpoint.save(tmp_path / "c", tree)
    assert same(checkpoint.load(tmp_path / "c"), tree)


def test_any_text_can_be_a_key(tmp_path):
    """Dots, slashes and all else that has a meaning in paths is escaped."""
    keys = ["a.b", "a/b", "..", "", ".", "a", "%2E", "__metadata__", "manifest.json", "ä\ud800", "CON", "\x00"]
    tree = {key: {inner: np.full(2, i) for i, inner in enumerate(keys)} for key in keys} | {"array": np.ones(1)}
    checkpoint.save(tmp_path / "c", tree)
    assert same(checkpoint.load(tmp_path / "c"), tree)
    assert all(path.parent == tmp_path / "c" for path in (tmp_path / "c").rglob("*"))
    assert os.listdir(tmp_path) == ["c"]


def test_scalars_of_numpy_become_pythons(tmp_path):
    """They are written as the numbers they stand for."""
    checkpoint.save(tmp_path / "c", {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.float64(0.1)})
    assert same(checkpoint.load(tmp_path / "c"), {"a": 0.5, "b": 3, "c": True, "d": 0.1})


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([{}], object), "'x.y': an array of Python objects cannot be saved"),
        (np.zeros(2, [("a", "f4")]), "'x.y': an array of dtype .* cannot be saved"),
        (np.zeros(2, "U3"), "'x.y': an array of dtype <U3"),
        (np.ma.masked_array([1, 2], [True, False]), "'x.y': a MaskedArray cannot be saved"),
        ((1, 2), "'x.y': a tuple would be loaded as a list"),
        (random.getstate(), "'x.y': a tuple"),
        (Pair(1, 2), "'x.y': a tuple"),
        ([np.zeros(2)], "'x.y.0': a ndarray inside a list cannot be saved"),
        ([1, {"a": 1}], "'x.y.1': a dict inside a list"),
        ({1: 2}, "'x.y': the key 1 is not a str"),
        ({1, 2}, "'x.y': a set cannot be saved"),
        (b"bytes", "'x.y': a bytes cannot be saved"),
        (object(), "'x.y': a object cannot be saved"),
    ],
)
def test_what_would_not_come_back_is_refused(value, message, tmp_path):
    """Before anything is written, with its place in the tree."""
    with pytest.raises(CheckpointError, match=message):
        checkpoint.save(tmp_path / "c", {"x": {"y": value}})
    assert os.listdir(tmp_path) == []


def test_a_top_level_array_called_metadata_is_an_array(tmp_path):
    """The one name that the file format keeps for itself."""
    checkpoint.save(tmp_path / "c", {"__metadata__": np.ones(2)})
    assert same(checkpoint.load(tmp_path / "c")["__metadata__"], np.ones(2))


def test_parts_are_read_alone(tmp_path):
    """What was not asked for is neither read nor checked; what was, is."""
    checkpoint.save(tmp_path / "c", TREE)
    (tmp_path / "c" / "replay.safetensors").write_bytes(b"damaged")
    assert same(checkpoint.load(tmp_path / "c", only=("agent",)), {"agent": TREE["agent"]})
    assert checkpoint.load(tmp_path / "c", only=["step"]) == {"step": 7}
    with pytest.raises(CheckpointError, match=r"replay\.safetensors is damaged"):
        checkpoint.load(tmp_path / "c", only=("agent", "replay"))
    with pytest.raises(CheckpointError, match="has no part 'agents'; it has agent, replay, step"):
        checkpoint.load(tmp_path / "c", only=("agents",))


def test_others_can_read_the_arrays(tmp_path):
    """They are what safetensors' own tools expect, and as readable as any new file."""
    from safetensors.numpy import load_file

    checkpoint.save(tmp_path / "c", TREE)
    assert same(load_file(tmp_path / "c" / "agent.safetensors"), {"agent.weights": TREE["agent"]["weights"]})
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [*(tmp_path / "c").iterdir(), tmp_path / "plain"]}
    assert len(modes) == 1


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "agent.safetensors"])
@pytest.mark.parametrize("harm", ["missing", "truncated", "empty", "longer", "folder", "pipe", "link"])
def test_damage_is_named(name, harm, tmp_path):
    """The error tells which file, and no more is needed than to look at it."""
    checkpoint.save(tmp_path / "c", TREE)
    path = tmp_path / "c" / name
    contents = path.read_bytes()
    path.unlink()
    if harm in ("truncated", "empty", "longer"):
        path.write_bytes({"truncated": contents[:-1], "empty": b"", "longer": contents + b" "}[harm])
    elif harm == "folder":
        path.mkdir()
    elif harm == "pipe":
        os.mkfifo(path)
    elif harm == "link":
        (tmp_path / "elsewhere").write_bytes(contents)
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        checkpoint.load(tmp_path / "c")


def test_strange_files_are_refused(tmp_path):
    """A checkpoint is what was written, and nothing besides."""
    checkpoint.save(tmp_path / "c", TREE)
    (tmp_path / "c" / "data.pkl").touch()
    with pytest.raises(CheckpointError, match=r"data\.pkl is not part of the checkpoint"):
        checkpoint.load(tmp_path / "c")


@pytest.mark.parametrize("contents", [b"[]", b"{}", b"[" * 100_000, b'{"version": 1}', b"\xff", b"9" * 10_000])
def test_a_manifest_of_any_other_kind_is_refused(contents, tmp_path):
    """Whatever is in it."""
    checkpoint.save(tmp_path / "c", TREE)
    (tmp_path / "c" / "manifest.json").write_bytes(contents)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        checkpoint.load(tmp_path / "c")


def test_another_version_is_refused(tmp_path, monkeypatch):
    """With both versions in the message."""
    monkeypatch.setattr(checkpoint_files, "VERSION", 2)
    checkpoint.save(tmp_path / "c", TREE)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="has version 2, this rookery reads version 1"):
        checkpoint.load(tmp_path / "c")


def test_a_folder_is_never_written_over(tmp_path):
    """Nor is there a moment in which it is gone."""
    checkpoint.save(tmp_path / "c", TREE)
    with pytest.raises(CheckpointError, match="exists already"):
        checkpoint.save(tmp_path / "c", TREE)


# --- the checkpoints of a run ---------------------------------------------------------------------------------------


def test_the_last_ones_and_the_best_are_kept(tmp_path):
    """Whatever comes later, the highest score stays."""
    kept = Checkpoints(tmp_path / "checkpoints", keep=2)
    assert (kept.steps(), kept.latest(), kept.best()) == ([], None, None)
    for step, score in [(100, 1.0), (200, 5.0), (300, float("nan")), (400, 5.0), (500, None), (600, -2.0)]:
        assert kept.save(step, {"step": step}, score=score) == kept.latest()
    assert kept.steps() == [200, 500, 600]
    assert kept.best()[0].path.name == "step-000000000200"
    assert kept.load_best() == (200, {"step": 200})
    assert kept.load_latest() == (600, {"step": 600})
    assert kept.load_latest(only=["step"]) == (600, {"step": 600})


def test_a_step_can_be_saved_again(tmp_path):
    """The new one takes the old one's place, and its score if it has none of its own."""
    kept = Checkpoints(tmp_path, keep=2)
    kept.save(1, {"x": 0})
    kept.save(2, {"x": 1}, score=3.0)
    kept.save(2, {"x": 2})
    assert kept.save(2, {"x": 3}).name == "step-000000000002-3"
    assert sorted(os.listdir(tmp_path)) == ["step-000000000001", "step-000000000002-3"]
    assert kept.load_best() == kept.load_latest() == (2, {"x": 3})


def test_a_score_may_come_later(tmp_path):
    """The checkpoint that waits for it is not removed; with its score it may be the best."""
    kept = Checkpoints(tmp_path, keep=1, run="abc")
    kept.save(1, {"x": 1}, score=1.0)
    kept.save(2, {"x": 2})
    kept.held = 2
    for step in (3, 4):
        kept.save(step, {"x": step})
    assert kept.steps() == [1, 2, 4]
    kept.held = None
    assert kept.set_score(2, 5.0) == kept.best()[0].path and kept.load_best() == (2, {"x": 2})
    assert kept.set_score(3, 9.0) is None
    kept.save(5, {"x": 5})
    assert sorted(os.listdir(tmp_path)) == ["step-000000000002", "step-000000000005"]


@pytest.mark.parametrize("failing", ["write_manifest", "sync_folder"])
def test_a_score_that_cannot_be_written_changes_nothing(failing, tmp_path, monkeypatch):
    """The checkpoint is whole, with its score of before or the new one; nothing else is left."""
    kept = Checkpoints(tmp_path)
    path = kept.save(1, TREE)

    def fails(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(checkpoint, failing, fails)
    with pytest.raises(OSError, match="no space"):
        kept.set_score(1, 5.0)
    assert same(checkpoint.load(path), TREE) and os.listdir(tmp_path) == [path.name]


def test_a_resumed_run_leaves_no_future(tmp_path):
    """Steps later than the one just saved are from before the resume."""
    kept = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3, 4):
        kept.save(step, {"x": step}, score=float(step))
    kept.save(3, {"x": "again"})
    assert kept.steps() == [2, 3]
    assert kept.load_latest() == (3, {"x": "again"})


def test_a_damaged_one_is_passed_over(tmp_path, caplog):
    """The one before it is used, and the user is told why."""
    kept = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        kept.save(step, {"x": step}, score=float(step))
    (kept.latest() / "state.json").write_bytes(b"{}")
    with caplog.at_level("INFO", "rookery"):
        assert kept.load_latest() == kept.load_best() == (2, {"x": 2})
    assert "step-000000000003/state.json is damaged" in caplog.text
    assert "using the checkpoint of step 2" in caplog.text
    for step in (1, 2):
        (tmp_path / f"step-{step:012d}" / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        kept.load_latest()
    kept.save(4, {"x": 4})
    assert kept.load_latest() == (4, {"x": 4})


def test_without_scores_the_newest_is_the_best(tmp_path):
    """There is always something to watch."""
    kept = Checkpoints(tmp_path)
    kept.save(1, {}), kept.save(2, {"x": 2})
    assert kept.best() is None
    assert kept.load_best() == (2, {"x": 2})
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        Checkpoints(tmp_path / "nothing").load_best()
    with pytest.raises(OptionError, match="keep"):
        Checkpoints(tmp_path, keep=0)


def test_what_others_left_is_removed_but_not_what_they_write(tmp_path):
    """A folder of a killed process goes at the next save; one in use does not."""
    with checkpoint._temporary_folder(tmp_path) as (busy, _):
        (tmp_path / f"{checkpoint.UNFINISHED}dead").mkdir()
        (tmp_path / f"{checkpoint.UNFINISHED}dead" / "state.json").touch()
        Checkpoints(tmp_path).save(1, TREE)
        assert sorted(os.listdir(tmp_path)) == [busy.name, "step-000000000001"]


@pytest.mark.parametrize("failing", range(1, 7))
def test_a_sync_that_fails_changes_nothing(failing, tmp_path, monkeypatch):
    """A full disk may show only then: at the file, the folder, or the folder around it."""
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, TREE)
    before, calls, fsync = files_of(tmp_path), [], os.fsync

    def full(fd):
        calls.append(fd)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        kept.save(2, TREE)
    assert len(calls) == failing
    assert files_of(tmp_path) == before
    assert len(os.listdir(tmp_path)) == 1


def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch):
    """Ctrl-C in the middle of a save is as if it had not begun."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "write_manifest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path / "c", TREE)
    assert os.listdir(tmp_path) == []


def test_the_manifest_is_json_that_others_can_check(tmp_path):
    """Sizes and hashes of all the other files."""
    import hashlib

    checkpoint.save(tmp_path / "c", TREE, score=1.5)
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert manifest["score"] == 1.5
    for name, about in manifest["files"].items():
        contents = (tmp_path / "c" / name).read_bytes()
        assert about == {"bytes": len(contents), "sha256": hashlib.sha256(contents).hexdigest()}


def test_earlier_checkpoints_thin_out_within_a_budget(tmp_path):
    """Dense near the last, ever fewer before; the first stays, and the space is never more than was set."""
    tree = {"agent": {"weights": np.zeros(2000, np.float32)}}
    kept = Checkpoints(tmp_path, keep=2, budget=0.1)  # MB: about ten of 9 kB
    for step in range(10, 410, 10):
        size = sum(file.stat().st_size for file in kept.save(step, tree).iterdir())
        assert len(kept.steps()) <= max(2, 0.1e6 / size)
    gaps = np.diff(kept.steps())
    assert kept.steps()[0] == 10 and kept.steps()[-1] == 400 and len(kept.steps()) >= 8
    assert gaps[-1] == 10 and gaps[0] > 4 * gaps[-1] and (np.diff(gaps) <= 10).all()
