"""The compiled Game Boy beside mGBA, an emulator with a mature core:

    python benchmarks/gameboy_mgba.py [--roms build/roms] [--frames 1500]

Needs gcc and Debian's libmgba-dev, and ROMs, such as those of the repository retrio/gb-test-roms. Each ROM runs on both
from power-on. Printed are the bytes of working RAM that differ at the end, and whether the background shows the same
letters; then the frames that one core makes with rookery's own game, without drawing. ROMs for a Game Boy Color and for
sound are skipped. Exits with 1 if a ROM differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import rookery
from gameboy_kernel import OURS, kernel_rate, make_world
from rookery.errors import WorldError
from rookery.worlds.gameboy.rom import COLOUR

EACH = 60  # frames of a step
LEFT_OUT = ("cgb", "sound")
SIDE = r"""
#include <mgba/flags.h>
#include <mgba/core/config.h>
#include <mgba/core/core.h>
#include <mgba/core/log.h>
#include <mgba/gb/core.h>
#include <mgba-util/vfs.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void say_nothing(struct mLogger* logger, int category, enum mLogLevel level, const char* text, va_list rest) {}
static struct mLogger quiet = {.log = say_nothing};
static color_t screen[256 * 256];
static unsigned char memory[0x8000];

int main(int count, char** words) { /* ROM, frames, file for the memory from 8000 on */
    mLogSetDefaultLogger(&quiet);
    struct mCore* core = GBCoreCreate();
    if (!core->init(core)) return 1;
    mCoreInitConfig(core, NULL);
    mCoreConfigSetIntValue(&core->config, "frameskip", 1 << 20);
    mCoreLoadConfig(core);
    /* not by mCoreLoadFile, which knows ROMs by a logo that ours has not */
    core->setVideoBuffer(core, screen, 256);
    if (!core->loadROM(core, VFileOpen(words[1], O_RDONLY))) return 1;
    core->reset(core);
    clock_t began = clock();
    for (int frame = 0; frame < atoi(words[2]); frame++) core->runFrame(core);
    printf("%f", (double)(clock() - began) / CLOCKS_PER_SEC);
    for (int place = 0; place < 0x8000; place++) memory[place] = core->rawRead8(core, 0x8000 + place, -1);
    FILE* file = fopen(words[3], "wb");
    return fwrite(memory, 1, 0x8000, file) != 0x8000 || fclose(file);
}
"""


class Peer:
    """mGBA, as a small program that is compiled in a folder."""

    def __init__(self, folder: Path) -> None:
        self._program, self._source, self._rom, self._memory = (
            folder / name for name in ("side", "side.c", "rom.gb", "memory")
        )
        self._source.write_text(SIDE)
        subprocess.run(["gcc", "-O2", self._source, "-o", self._program, "-lmgba"], check=True)

    def run(self, data: bytes, frames: int) -> tuple[np.ndarray, float]:
        """The memory from 8000 on after so many frames, and the seconds of a core that they took."""
        self._rom.write_bytes(data)
        words = [self._program, self._rom, str(frames), self._memory]
        seconds = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return np.fromfile(self._memory, np.uint8), float(seconds)


def ours(rom: Path, frames: int) -> np.ndarray:
    """The same memory of the compiled console."""
    envs = rookery.make_vec(make_world(rom, EACH), 1, backend="kernel", workers=1)
    envs.reset(seed=1)
    for _ in range(frames // EACH):
        envs.step(np.zeros(1, np.int64))
    memory: np.ndarray = envs.arena.memory[0].copy()
    envs.close()
    return memory


def letters(memory: np.ndarray) -> str:
    """What the background shows in ROMs whose tiles are letters."""
    return "".join(chr(tile) if 32 <= tile < 127 else " " for tile in memory[0x1800:0x1C00])


def compare(peer: Peer, rom: Path, frames: int, folder: Path) -> bool:
    """Print what differs; whether nothing does."""
    data = bytearray(rom.read_bytes())
    data[COLOUR] = 0
    copy = folder / rom.name
    copy.write_bytes(data)
    try:
        mine = ours(copy, frames)
    except WorldError as error:
        print(f"{rom.name}: {error}")
        return True
    theirs, _ = peer.run(bytes(data), frames)
    different = int(np.count_nonzero(mine[0x4000:0x6000] != theirs[0x4000:0x6000]))
    same = not different and letters(mine) == letters(theirs)
    print(f"{rom.name}: {different} bytes of working RAM differ, letters {'equal' if same else 'differ'}", flush=True)
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--roms", type=Path, default=Path("build/roms"), help="a folder with ROMs, also in its folders")
    parser.add_argument("--frames", type=int, default=3600, help="of each ROM (default: %(default)s)")
    args = parser.parse_args()
    frames = args.frames // EACH * EACH
    found = sorted(path for path in args.roms.rglob("*.gb") if not any(word in str(path) for word in LEFT_OUT))
    with tempfile.TemporaryDirectory(prefix="mgba-") as name:
        peer = Peer(Path(name))
        fits = [compare(peer, rom, frames, Path(name)) for rom in found]
        pairs = [
            (kernel_rate(make_world(OURS, 4), 3000, 4), 12_000 / peer.run(OURS.read_bytes(), 12_000)[1])
            for _ in range(3)
        ]
    mine, theirs = (max(side) for side in zip(*pairs, strict=True))
    ratio = float(np.median([a / b for a, b in pairs]))
    print(f"one core, rookery's game: {mine:,.0f} frames a CPU second, mGBA {theirs:,.0f}: {ratio:.1f}x")
    print(f"{sum(fits)} of {len(fits)} ROMs as on mGBA")
    return not all(fits)


if __name__ == "__main__":
    sys.exit(main())
