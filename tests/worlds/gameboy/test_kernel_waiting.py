"""Loops that only wait are skipped, and nothing else changes: not the memory, and not the time."""

import numpy as np
import pytest
from tests.worlds.gameboy.cartridges import LOOP
from tests.worlds.gameboy.test_kernel_console import console, rom_with

from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.gameboy.kernel import cpu

FRAMES = 3
COUNT_ROUND = "2100C0 34"  # INC (C000)
# Programs, and how many of their instructions are run at most: the others are skipped.
WAITS = {
    "LY": (LOOP.hex(), 0.5),
    "STAT": (f"F041 E603 20FA {COUNT_ROUND} F041 E603 28FA 18EE", 0.8),
    "LY and STAT": (f"F041 47 F044 A8 FE11 20F6 {COUNT_ROUND} 18F0", 0.99),
    "a flag that an interrupt sets": ("3E01 E0FF FB FA00C0 B7 28FA AF EA00C0 2101C0 34 18F0", 0.05),
    "a jump to itself": ("3E01 E0FF FB 18FE", 0.05),
    "LY with the LCD off": ("AF E040 F044 FE90 20FA", 0.05),
    "video RAM": ("FA0080 FE01 20F9", 0.99),
}
# Programs that change something in each round: nothing is skipped.
WORKS = {
    "DIV": (f"F004 FE80 20FA {COUNT_ROUND} F004 FE80 28FA 18EE", 1),
    "IF": (f"F00F E601 28FA AF E00F {COUNT_ROUND} 18F1", 1),
    "a counter": ("0D 20FD 18FB", 1),
    "a counter in memory": ("2101C0 34 20FD 18FB", 1),
    "the stack": ("31 00C0 F1 18FD", 1),
}
ON_VBLANK = bytes.fromhex("F5 3E01 EA00C0 F1 D9")  # PUSH AF; LD A,1; LD (C000),A; POP AF; RETI


def played(program, monkeypatch, skips):
    """Memory and time after each frame, and how many instructions were run."""
    counted = [0]
    execute = cpu._execute

    def count(*arguments):
        counted[0] += 1
        return execute(*arguments)

    data = bytearray(rom_with(bytes.fromhex(program)))
    data[0x40 : 0x40 + len(ON_VBLANK)] = ON_VBLANK
    with monkeypatch.context() as patch:
        patch.setattr(cpu, "_execute", count)
        if not skips:
            patch.setattr(cpu, "_skip", lambda state, memory, t: t)
        env = KernelEnv(console(bytes(data), 1), plain=True)
        env.reset(seed=1)
        seen = []
        for frame in range(FRAMES):
            env.step(frame % 3)
            arrays = env._env_arrays
            seen.append((int(arrays.states["t"][0]), arrays.memory[0].copy()))
    return seen, counted[0]


@pytest.mark.push("LY")
@pytest.mark.parametrize("name", [*WAITS, *WORKS])
def test_skipping_changes_nothing(name, monkeypatch):
    program, most = {**WAITS, **WORKS}[name]
    (skipped, fewer), (stepped, all_of_them) = (played(program, monkeypatch, skips) for skips in (True, False))
    for (t, memory), (other_t, other_memory) in zip(skipped, stepped, strict=True):
        assert t == other_t
        assert np.array_equal(memory, other_memory)
    assert fewer <= all_of_them * most
    assert name in WAITS or fewer == all_of_them
