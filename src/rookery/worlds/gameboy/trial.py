"""Tests save states of unknown origin in a separate process.

A state that PyBoy itself wrote does not name its game. With a state of another game, PyBoy may read beyond its memory,
which crashes the process, or reach an invalid instruction, which blocks it forever. So this is tried in a child
process.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping

from rookery.errors import WorldError
from rookery.worlds.gameboy.emulator import Emulator, pyboy
from rookery.worlds.gameboy.rom import Rom

FRAMES = 60  # to run each state for
SECONDS = 20.0  # for the process to start, and again for every ten states
CHILD = "from rookery.worlds.gameboy.trial import main; main()"


def try_out(rom: Rom, named: Mapping[str, bytes]) -> None:
    """Refuse the first of these states that PyBoy cannot run. Their version and size are already checked."""
    if not named:
        return
    output, ending = _run(pickle.dumps((rom, list(named.values()))), SECONDS * (1 + len(named) / 10))
    fine = output.count(b"\n")
    if fine < len(named):
        raise WorldError(
            f"{list(named)[fine]}: the save state is probably of another game than {rom.title!r}: with it, {ending}. "
            "Make it again with `rookery gameboy explore`"
        )


def _run(given: bytes, seconds: float) -> tuple[bytes, str]:
    """The child's output, one line per state that runs, and how the child ended."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", CHILD]
    try:
        ran = subprocess.run(command, input=given, capture_output=True, timeout=seconds, env=paths, check=False)
    except subprocess.TimeoutExpired as error:
        return error.stdout or b"", "the game hangs"
    ended = signal.Signals(-ran.returncode).name if ran.returncode < 0 else ran.stderr.decode().strip()[-200:]
    return ran.stdout, f"PyBoy crashes ({ended})"


def main() -> None:
    """The child process: reads a ROM and states, and writes one line per state that runs."""
    rom, states = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    emulator = Emulator(rom)
    for state in states:
        try:
            emulator.load(state)
            emulator.run(FRAMES, render=True)
        except pyboy().utils.PyBoyException as error:
            sys.exit(str(error))
        os.write(sys.stdout.fileno(), b"\n")
