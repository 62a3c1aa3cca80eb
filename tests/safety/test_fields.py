"""Whatever stands in a field of a run's files, the answer is one of our errors, soon, and nothing outside changes."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.console import printable_lines
from rookery.errors import RookeryError
from rookery.training.storage import checkpoint_files
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import print_table, table
from safety.quickness import Stopwatch
from safety.vouching import vouch

DEEP: list[Any] = []
for _ in range(200):
    DEEP = [DEEP]
HOSTILE: list[Any] = [
    None, True, -1, 1.5, float("nan"), float("inf"), 10**30, 2**63 - 1, "", "x", "../../x", "/etc/passwd", "a\0b",
    "\x1b[2J\nrookery: all is well", "a" * 30_000, [], {}, DEEP, ["x"], [10**400], {"../x": 1}, "evil.py:Env", "\ud800",
]  # fmt: skip
MISSING = object()
Steps = tuple[Any, ...]


def fields(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """Where something stands in a file; of lists, in the first item."""
    yield steps
    for key in value if isinstance(value, dict) else range(min(len(value), 1)) if isinstance(value, list) else ():
        yield from fields(value[key], (*steps, key))


def changed(value: Any, steps: Steps, new: Any) -> Any:
    """The same with something else there."""
    if not steps:
        return {} if new is MISSING else new
    value = copy.deepcopy(value)
    place = value
    for key in steps[:-1]:
        place = place[key]
    place[steps[-1]] = new
    if new is MISSING:
        del place[steps[-1]]
    return value


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def answers(what: Callable[[], Any], label: Any) -> list[Any]:
    """What is wrong with the answer to a hostile file: nothing, if it is used or refused in order."""
    stopwatch, said = Stopwatch(), io.StringIO()
    wrong: list[Any] = []
    try:
        with redirect_stdout(said), redirect_stderr(said):
            what()
    except RookeryError as error:
        said.write(printable_lines(error))
    except Exception as error:
        wrong.append((label, f"{type(error).__name__}: {error}"))
    if "\x1b[2J" in said.getvalue():
        wrong.append((label, "shown as it is"))
    if stopwatch.took_long():
        wrong.append((label, "too slow"))
    return wrong


@pytest.fixture
def tampered(trained: Path, tmp_path: Path, treasure: Path) -> Iterator[Callable[[], RunDir]]:
    """Fresh copies of a run, one after the other, in the only folder that may change."""

    def fresh() -> RunDir:
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        return RunDir(Path(shutil.copytree(trained, tmp_path / "runs" / "downloaded")))

    yield fresh
    assert sorted(os.listdir(tmp_path)) == ["home", "runs"]
    assert os.listdir(tmp_path / "runs") == ["downloaded"]
    assert treasure.read_text() == "three years of work"


def resumed(run: RunDir) -> Any:
    return rookery.resume(run.path, steps=576, evaluation={"episodes": 1})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "share"), [(0, 5), *(pytest.param(shift, 1, marks=pytest.mark.slow) for shift in range(0, 24, 4))]
)
def test_in_a_config(tampered: Callable[[], RunDir], shift: int, share: int) -> None:
    """Of some fields; of all, where there is time."""
    wrong: list[Any] = []
    values, config = cycle([*HOSTILE[shift:], *HOSTILE[:shift]]), tampered().read_config()
    for steps in [*fields(config)][::share]:
        value, run = next(values), tampered()
        run.config.write_bytes(dumped(changed(config, steps, value)))
        wrong += answers(lambda run=run: rookery.load(run.path), ("load", steps, repr(value)[:40]))
        wrong += answers(lambda run=run: resumed(run), ("resume", steps, repr(value)[:40]))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "share"), [(0, 14), *(pytest.param(shift, 1, marks=pytest.mark.slow) for shift in range(0, 24, 4))]
)
def test_in_a_checkpoint(tampered: Callable[[], RunDir], shift: int, share: int) -> None:
    """With a manifest that vouches for it. Of some fields; of all, where there is time."""
    wrong: list[Any] = []
    newest = max((tampered().path / "checkpoints").iterdir()).name
    state = json.loads((tampered().path / "checkpoints" / newest / "state.json").read_bytes())
    values = cycle([*HOSTILE[shift:], MISSING, *HOSTILE[:shift]])
    for steps in [*fields(state)][::share]:
        value, run = next(values), tampered()
        folder = run.path / "checkpoints" / newest
        vouch(folder, "state.json", dumped(changed(state, steps, value)))
        wrong += answers(lambda run=run: resumed(run), ("resume", steps, repr(value)[:40]))
    assert not wrong


@pytest.mark.slow
def test_in_a_manifest(tampered: Callable[[], RunDir]) -> None:
    """Sealed as ours are."""
    wrong: list[Any] = []
    newest = max((tampered().path / "checkpoints").iterdir()).name
    manifest = json.loads((tampered().path / "checkpoints" / newest / "manifest.json").read_bytes())
    del manifest["sha256"]
    values = cycle(HOSTILE)
    for steps in fields(manifest):
        value, run = next(values), tampered()
        new = changed(manifest, steps, value)
        sealed_anew = checkpoint_files._with_hash(new) if isinstance(new, dict) else dumped(new)
        (run.path / "checkpoints" / newest / "manifest.json").write_bytes(sealed_anew)
        wrong += answers(lambda run=run: rookery.load(run.path), (steps, repr(value)[:40]))
        wrong += answers(lambda run=run: rookery.load(run.path, best=True), (steps, repr(value)[:40]))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.json", "summary.json", "metrics.jsonl", "evaluations.jsonl", "run.lock"])
def test_in_what_the_table_is_made_of(tampered: Callable[[], RunDir], name: str) -> None:
    """The table shows what it can; a run with such files goes on."""
    wrong: list[Any] = []
    run, values = tampered(), cycle(HOSTILE)
    text = (run.path / name).read_text()
    lines = [json.loads(line) for line in text.splitlines()] if name.endswith("jsonl") else [json.loads(text)]
    for steps in (*fields(lines), *fields(lines)):
        value = next(values)
        new = changed(lines, steps, value)
        (run.path / name).write_bytes(b"\n".join(map(dumped, new if isinstance(new, list) else [new])) + b"\n")
        wrong += answers(lambda: print_table(table(run.path.parent)), (steps, repr(value)[:40]))
    wrong += answers(lambda: resumed(run), name)
    assert not wrong
