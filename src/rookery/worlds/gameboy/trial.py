"""Save states that nobody vouches for, tried out in a process of its own.

A state that PyBoy wrote does not say which game it is of. With one of another game PyBoy reads beyond its memory, which
ends the process, or meets an instruction that no Game Boy has, at which it stands still for ever: better there than
here.
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

FRAMES = 60  # for which each state is run
SECONDS = 20.0  # for the process to start, and then for each ten states more
CHILD = "from rookery.worlds.gameboy.trial import main; main()"


def try_out(rom: Rom, named: Mapping[str, bytes]) -> None:
    """Refuse the first of these states that PyBoy cannot run. They have its version and size."""
    if not named:
        return
    told, ending = _run(pickle.dumps((rom, list(named.values()))), SECONDS * (1 + len(named) / 10))
    fine = told.count(b"\n")
    if fine < len(named):
        raise WorldError(
            f"{list(named)[fine]}: the save state is probably of another game than {rom.title!r}: with it, {ending}. "
            "Make it again with `rookery gameboy explore`"
        )


def _run(given: bytes, seconds: float) -> tuple[bytes, str]:
    """What the other process told, a line for each state that is fine, and how it ended."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", CHILD]
    try:
        ran = subprocess.run(command, input=given, capture_output=True, timeout=seconds, env=paths, check=False)
    except subprocess.TimeoutExpired as error:
        return error.stdout or b"", "the game stands still for ever"
    ended = signal.Signals(-ran.returncode).name if ran.returncode < 0 else ran.stderr.decode().strip()[-200:]
    return ran.stdout, f"PyBoy breaks down ({ended})"


def main() -> None:
    """The other process: a ROM and states come in, a line goes out for each that was run."""
    rom, states = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    emulator = Emulator(rom)
    for state in states:
        try:
            emulator.load(state)
            emulator.run(FRAMES, render=True)
        except pyboy().utils.PyBoyException as error:
            sys.exit(str(error))
        os.write(sys.stdout.fileno(), b"\n")
