"""The compiled Game Boy in figures, beside PyBoy on a CPU, and on a GPU if there is one:

    python benchmarks/gameboy_kernel.py [--roms build/roms] [--only cpu|gpu|fidelity] [--quick]

The game is rookery's own. The ROM that never halts is blargg's cpu_instrs, from the repository retrio/gb-test-roms: the
folder of `--roms` should hold its files (cpu_instrs/cpu_instrs.gb). Rows whose ROM is missing are skipped. On a GPU,
the memory of five consoles is compared with that of the CPU, byte by byte. PyBoy is needed for the CPU's rows only.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.worlds.gameboy.game_profile import read
from rookery.worlds.gameboy.kernel.header import Cartridge, cartridge_of
from rookery.worlds.gameboy.kernel.starts import CONSOLE, StartConsole, power_on
from rookery.worlds.gameboy.kernel.world import KEYS, GameBoyWorld
from rookery.worlds.gameboy.rom import ROMS

OURS, BUSY = ROMS / "meadow.gb", "cpu_instrs/cpu_instrs.gb"
PROFILE = """
[game]
title = "ANY"
[actions]
buttons = ["nothing", "right", "left", "up", "down", "a"]
frame_skip = {frames}
[memory]
value = {{ address = 0xC0A0 }}
[observation]
kind = "{kind}"
memory = [{{ value = "value" }}]
[episode]
length = 100000000
"""
BUTTONS = ("nothing", "right", "left", "up", "down", "a")
CHECKED = 5  # consoles whose memory is compared
PHASES, PHASE_STEPS = 64, 7  # consoles out of step start from so many states, each so many steps apart


def make_world(
    rom: Path, frames: int, kind: str = "memory", screen: Any = None, starts: list[StartConsole] | None = None
) -> GameBoyWorld:
    cartridge = cartridge_of(rom.read_bytes(), str(rom))
    profile = read(PROFILE.format(frames=frames, kind=kind))
    return GameBoyWorld.of(profile, cartridge, starts or [power_on(cartridge)], screen)


def later_starts(rom: Path, count: int) -> list[StartConsole]:
    """The same game at many moments."""
    cartridge: Cartridge = cartridge_of(rom.read_bytes(), str(rom))
    envs = rookery.make_vec(make_world(rom, 8), 1, backend="kernel")
    envs.reset(seed=1)
    found = []
    for _ in range(count):
        for _ in range(PHASE_STEPS):
            envs.step(np.zeros(1, np.int64))
        console = np.zeros(1, CONSOLE)
        for name in CONSOLE.names or ():
            console[name] = envs.arena.states[name][:1]
        found.append(
            StartConsole(console, envs.arena.memory[0, : cartridge.memory].copy(), np.zeros((144, 160), np.uint8))
        )
    return found


# --- fidelity -----------------------------------------------------------------------------------------------------


def fidelity_row(quick: bool) -> None:
    """Our game on both, with random buttons, from one save state: working RAM after each frame, and screens."""
    from rookery.kernel.kernel_env import KernelEnv
    from rookery.worlds.gameboy.emulator import Emulator
    from rookery.worlds.gameboy.kernel.starts import from_pyboy
    from rookery.worlds.gameboy.rom import built_in_rom
    from rookery.worlds.gameboy.states import built_in_states

    frames, every = (2_000, 20) if quick else (100_000, 100)
    rom, state = built_in_rom("meadow"), built_in_states("meadow")[0]
    cartridge, emulator = cartridge_of(rom.data, "meadow"), Emulator(rom)
    emulator.load(state)
    profile = read(PROFILE.format(frames=1, kind="memory"))
    env = KernelEnv(GameBoyWorld.of(profile, cartridge, [from_pyboy(state, cartridge)]), render_mode="rgb_array")
    env.reset(seed=1)
    rng, ram, screens, action = np.random.default_rng(2), 0, 0, 0
    for frame in range(frames):
        action = int(rng.integers(6)) if frame % 8 == 0 else action
        looks = frame % every == 0
        emulator.run(1, [] if action == 0 else [BUTTONS[action]], render=looks)
        env.step(action)
        ram += bytes(emulator.memory[0xC000:0xE000]) != env._env_arrays.memory[0, 0x4000:0x6000].tobytes()
        screens += looks and not np.array_equal(env.render(), emulator.screen[:, :, :3])
    print(f"frames whose working RAM differs from PyBoy's: {ram} of {frames:,}")
    print(f"screens that differ in any pixel: {screens} of {frames // every:,}", flush=True)
    emulator.close()


# --- one core of a CPU, beside PyBoy ------------------------------------------------------------------------------


def pyboy_rate(rom: Path, frames: int, every: int, draw: bool) -> float:
    """Frames a CPU second, in ticks of `every` frames whose last is drawn or not."""
    from pyboy import PyBoy

    console = PyBoy(str(rom), window="null", sound_emulated=False, log_level="ERROR")
    console.set_emulation_speed(0)
    console.tick(200, False, False)
    rng, started = np.random.default_rng(1), time.process_time()
    for _ in range(frames // every):
        button = BUTTONS[int(rng.integers(6))]
        if button != "nothing":
            console.button_press(button)
        console.tick(every, draw, False)
        if draw:
            np.ascontiguousarray(console.screen.ndarray[::2, ::2, 0])
        if button != "nothing":
            console.button_release(button)
    rate = frames / (time.process_time() - started)
    console.stop(save=False)
    return rate


def kernel_rate(world: GameBoyWorld, steps: int, frames: int) -> float:
    """The same of the compiled console."""
    envs = rookery.make_vec(world, 1, backend="kernel", workers=1)
    envs.reset(seed=1)
    actions = np.random.default_rng(1).integers(0, 6, (steps, 1))
    for k in range(min(200 // frames + 1, steps)):
        envs.step(actions[k])
    started = time.process_time()
    for k in range(steps):
        envs.step(actions[k])
    return steps * frames / (time.process_time() - started)


def cpu_rows(roms: Path, quick: bool) -> None:
    frames = 2_000 if quick else 12_000
    busy = roms / BUSY
    rows = [("our game", OURS, 4, "memory", None, 3.0), ("never halts", busy, 4, "memory", None, 2.0),
            ("our game, 84 x 84 picture every 4th frame", OURS, 4, "pixels", (84, 84), 2.0)]  # fmt: skip
    for name, rom, every, kind, screen, least in rows:
        if not rom.exists():
            print(f"{name}: skipped, there is no {rom}")
            continue
        started, cpu = time.perf_counter(), time.process_time()
        world = make_world(rom, every, kind, screen)
        kernel_rate(world, 10, every)
        made = f"{time.process_time() - cpu:.0f} CPU s, {time.perf_counter() - started:.0f} s to compile or load"
        count = frames // 4 if rom == busy else frames
        pairs = [(kernel_rate(world, count // every, every), pyboy_rate(rom, count, every, kind != "memory"))
                 for _ in range(3)]  # fmt: skip
        ours, theirs = (max(side) for side in zip(*pairs, strict=True))
        ratio = float(np.median([a / b for a, b in pairs]))
        print(
            f"CPU, {name}: {ours:,.0f} frames a CPU second, PyBoy {theirs:,.0f}: {ratio:.1f}x (>= {least:g}x); {made}"
        )


# --- a GPU --------------------------------------------------------------------------------------------------------


def same_on_cpu(envs: Any, world: GameBoyWorld, actions: np.ndarray) -> int:
    """Bytes of the first consoles that differ from the CPU's after the same actions."""
    host = rookery.make_vec(world, CHECKED, backend="kernel")
    host.reset(seed=1)
    for row in actions:
        host.step(row[:CHECKED])
    mine = envs.arena.tensors["memory"][:, :CHECKED].cpu().numpy().T
    return int(np.count_nonzero(mine != host.arena.memory))


def gpu_rate(name: str, world: GameBoyWorld, num_envs: int, frames: int, steps: int, same: bool, least: float) -> None:
    import torch

    started = time.perf_counter()
    envs = rookery.make_vec(world, num_envs, backend="cuda")
    envs.reset(seed=1)
    drawn = torch.Generator(device="cuda").manual_seed(1)
    shape = (2 * steps + 2, 1 if same else num_envs)
    actions = torch.randint(0, 6, shape, device="cuda", generator=drawn).expand(-1, num_envs).contiguous()
    envs.step(actions[0])
    torch.cuda.synchronize()
    ready = time.perf_counter() - started
    for k in range(1, steps + 2):
        envs.step(actions[k])
    torch.cuda.synchronize()
    started = time.perf_counter()
    for k in range(steps + 2, 2 * steps + 2):
        envs.step(actions[k])
    torch.cuda.synchronize()
    rate = num_envs * frames * steps / (time.perf_counter() - started)
    different = same_on_cpu(envs, world, actions[:, :CHECKED].cpu().numpy())
    print(
        f"GPU, {name}, {num_envs:,} consoles: {rate / 1e6:,.2f} M frames/s (>= {least:g}), bytes that differ from the "
        f"CPU: {different}; {ready:.0f} s to the first step",
        flush=True,
    )


def gpu_rows(roms: Path, quick: bool) -> None:
    busy, sizes = roms / BUSY, (16_384,) if quick else (16_384, 65_536, 131_072)
    for registers in (64, 96, 128, 255):
        world = make_world(OURS, 8)
        world.max_registers = registers
        _try(gpu_rate, f"our game, {registers} registers a thread", world, 65_536, 8, 10, False, 30)
    for n in sizes:
        _try(gpu_rate, "our game", make_world(OURS, 8), n, 8, 10, False, 30)
    for n in sizes:
        _try(gpu_rate, "our game, 72 x 80 picture every 8th frame", make_world(OURS, 8, "pixels"), n, 8, 10, False, 9)
    if not busy.exists():
        print(f"never halts: skipped, there is no {busy}")
        return
    for n in sizes:
        _try(gpu_rate, "never halts, in step", make_world(busy, 8), n, 8, 2, True, 2)
    starts = later_starts(busy, PHASES)
    for n in sizes:
        _try(gpu_rate, "never halts, out of step", make_world(busy, 8, starts=starts), n, 8, 2, False, 0.5)


def _try(measure: Callable[..., None], *arguments: Any) -> None:
    """One row that fails does not end the others."""
    try:
        measure(*arguments)
    except Exception:  # noqa: BLE001 - it is printed
        traceback.print_exc()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--roms", type=Path, default=Path("build/roms"), help="the folder of blargg's test ROMs")
    parser.add_argument("--only", choices=["cpu", "gpu", "fidelity"])
    parser.add_argument("--quick", action="store_true", help="less of everything")
    args = parser.parse_args()
    assert set(BUTTONS) - {"nothing"} <= set(KEYS)
    if args.only != "gpu" and importlib.util.find_spec("pyboy"):
        if args.only != "cpu":
            fidelity_row(args.quick)
        if args.only != "fidelity":
            cpu_rows(args.roms, args.quick)
    if args.only in ("cpu", "fidelity"):
        return
    import torch

    if torch.cuda.is_available():
        print(torch.cuda.get_device_name())
        gpu_rows(args.roms, args.quick)
    else:
        print("no GPU: its rows are skipped")


if __name__ == "__main__":
    main()
