"""Fault 1 with emulators, and every wrong file as one clear error through the engine."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import rookery
from rookery.engine.workers.forkserver import SERVERS
from rookery.errors import ConfigError, StateError, WorkerDied, WorldError
from rookery.worlds.gameboy.env import GameBoyEnv
from worlds.gameboy.cartridges import BREAKS_ON_A, folder, rom

GAME = "rookery/GameBoy-v0"
RIGHT, A = 2, 3
AT_ONCE = 30  # seconds: what hangs takes for ever, and what does not a second or two, more on a busy machine


def children():
    """All but fork servers, which stay for the next engine."""
    servers = {server.pid for server in SERVERS}
    return {child for child in psutil.Process().children(recursive=True) if child.pid not in servers}


def team(pacer, **options):
    envs = rookery.make_vec(GAME, 4, backend="process", workers=2, env_kwargs=pacer, **options)
    envs.reset(seed=7)
    return envs


def test_a_killed_emulator_comes_back(pacer):
    """The envs of a killed worker are truncated and restarted; the others go on as in an undisturbed run."""
    calm = rookery.make_vec(GAME, 4, backend="serial", env_kwargs=pacer)
    calm.reset(seed=7)
    others = children()
    envs = team(pacer, on_failure="restart")
    actions = np.full(4, RIGHT)
    for step in range(12):
        if step == 5:
            os.kill(envs.stats()[1]["pid"], signal.SIGKILL)
        began = time.monotonic()
        observations, rewards, _, truncated, infos = envs.step(actions)
        assert time.monotonic() - began < AT_ONCE
        expected, paid, *_ = calm.step(actions)
        assert (observations[:2] == expected[:2]).all() and (rewards[:2] == paid[:2]).all()
        if truncated.any():
            assert truncated.tolist() == infos["restarted"].tolist() == [False, False, True, True]
            hit = step
    assert hit == 5 and envs.restarts == 1
    envs.close(), calm.close()
    _, left = psutil.wait_procs(children() - others, timeout=AT_ONCE)
    assert not left


def test_a_killed_emulator_is_told_of(pacer):
    """With on_failure="raise": which envs, and by which signal."""
    envs = team(pacer, on_failure="raise")
    os.kill(envs.stats()[0]["pid"], signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"SIGKILL"):
        for _ in range(3):
            envs.step(np.full(4, RIGHT))
    envs.close()


def test_a_game_that_breaks_down(pacer):
    """PyBoy never returns from it; with `step_timeout` its worker is replaced, and the others go on."""
    Path(pacer["rom"]).write_bytes(BREAKS_ON_A)
    envs = team(pacer, on_failure="restart", step_timeout=2)
    envs.step(np.full(4, RIGHT))
    began = time.monotonic()
    _, rewards, _, truncated, infos = envs.step(np.array([RIGHT, RIGHT, RIGHT, A]))
    assert 2 <= time.monotonic() - began < 2 + AT_ONCE
    assert truncated.tolist() == infos["restarted"].tolist() == [False, False, True, True]
    assert rewards.tolist() == [2.0, 2.0, 0.0, 0.0]
    envs.step(np.full(4, RIGHT))  # the first of the new episodes
    assert envs.step(np.full(4, RIGHT))[1].tolist() == [2.0] * 4
    envs.close()


@pytest.mark.parametrize("backend", ["serial", "process"])
@pytest.mark.parametrize(
    ("spoil", "kind", "words"),
    [
        (lambda path: (path / "pacer.gb").write_bytes(rom("OTHER")), WorldError, "this is 'OTHER'"),
        (lambda path: (path / "pacer.gb").write_bytes(rom()[:20_000]), WorldError, "truncated"),
        (lambda path: (path / "pacer.gb").unlink(), WorldError, "cannot be read"),
        (lambda path: change(path, "0xC002 }", "0x0002 }"), ConfigError, r"\[memory.x\]: 0002 is in the ROM"),
        (lambda path: start_from(path, b"\x01rubbish"), WorldError, "another version of PyBoy"),
    ],
    ids=["wrong ROM", "truncated ROM", "no ROM", "bad address", "bad state"],
)
def test_a_wrong_file_is_one_clear_error(tmp_path, backend, spoil, kind, words):
    """Whatever backend, the error is the env's own, and no process is left."""
    pacer = folder(tmp_path)
    spoil(tmp_path)
    with pytest.raises(kind, match=words):
        rookery.make_vec(GAME, 2, backend=backend, env_kwargs=pacer, **({"workers": 2} if backend == "process" else {}))
    assert not children()


def change(path: Path, old: str, new: str) -> None:
    file = path / "pacer.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def start_from(path: Path, data: bytes) -> None:
    (path / "start.state").write_bytes(data)
    change(path, 'boot = ["nothing 100"]', 'files = ["start.state"]')


def test_a_checkpoint_of_another_game_is_refused(tmp_path):
    """The saved emulator says which ROM it ran."""
    other = tmp_path / "other"
    other.mkdir()
    ours, theirs = GameBoyEnv(**folder(tmp_path)), GameBoyEnv(**folder(other, "OTHER"))
    ours.reset(seed=1), theirs.reset(seed=1)
    with pytest.raises(StateError, match="of another game, or another version of it: of 'OTHER'"):
        ours.set_state(theirs.get_state())
    ours.close(), theirs.close()
