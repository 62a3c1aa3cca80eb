"""The compiled Game Boy on a GPU, with several limits of registers, all compiled at the same time:

    python benchmarks/gameboy_gpu.py [--registers 64 96 128] [--roms build/roms]

Each row says how many bytes of five consoles differ from the CPU's after the same actions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import rookery
from gameboy_kernel import BUSY, OURS, PHASES, gpu_rate, later_starts, make_world

KINDS = ("memory", "pixels")
CONSOLES = 131_072


def world_of(rom: Path, kind: str, registers: int, starts: object = None):
    world = make_world(rom, 8, kind, None, starts)
    world.max_registers = registers
    return world


def compile_one(kind: str, registers: int) -> None:
    import torch

    started = time.perf_counter()
    envs = rookery.make_vec(world_of(OURS, kind, registers), 64, backend="cuda")
    envs.reset(seed=1)
    envs.step(torch.zeros(64, dtype=torch.int64, device="cuda"))
    torch.cuda.synchronize()
    print(f"{kind}, {registers} registers: {time.perf_counter() - started:.0f} s to the first step", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--registers", type=int, nargs="+", default=[64, 96, 128])
    parser.add_argument("--roms", type=Path, default=Path("build/roms"), help="the folder of blargg's test ROMs")
    parser.add_argument("--compile", nargs=2, metavar=("KIND", "REGISTERS"))
    args = parser.parse_args()
    if args.compile:
        return compile_one(args.compile[0], int(args.compile[1]))
    rookery.make_vec(world_of(OURS, "memory", 64), 1, backend="kernel").reset(seed=1)
    rookery.make_vec(world_of(OURS, "pixels", 64), 1, backend="kernel").reset(seed=1)
    commands = [[sys.executable, __file__, "--compile", kind, str(r)] for kind in KINDS for r in args.registers]
    for process in [subprocess.Popen(command) for command in commands]:
        process.wait()
    busy = args.roms / BUSY
    starts = later_starts(busy, PHASES) if busy.exists() else []
    for r in args.registers:
        gpu_rate(f"our game, {r} registers", world_of(OURS, "memory", r), CONSOLES, 8, 10, False, 30)
        gpu_rate(f"our game, 72 x 80, {r} registers", world_of(OURS, "pixels", r), CONSOLES, 8, 5, False, 9)
        if starts:
            gpu_rate(f"never halts, {r} registers", world_of(busy, "memory", r), CONSOLES, 8, 2, True, 2)
            out = world_of(busy, "memory", r, starts)
            gpu_rate(f"never halts, out of step, {r} registers", out, CONSOLES, 8, 1, False, 0.5)
    return None


if __name__ == "__main__":
    main()
