"""`rookery doctor`: what this machine has, what is missing, and how to install it; whether there is a GPU, whether
torch can use it, and what a run does on it."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
from rich.text import Text

from rookery import printing
from rookery.console import size_text
from rookery.engine import loops
from rookery.engine.machine import allowed_cores, available_memory, cpu_quota, usable_cores
from rookery.engine.settings import START_METHODS
from rookery.engine.workers.child_process import PORTABLE
from rookery.kernel.gpu_driver import load_driver
from rookery.tools.measurements import extras, machine_facts, package_version

GOOD, NOTE, BAD = "ok", "note", "problem"
_STYLES = {GOOD: "green", NOTE: "yellow", BAD: "bold red"}
SHM = "/dev/shm"  # noqa: S108
SMALL_SHM = 64 * 2**20
FEW_FILES = 1024


@dataclass(frozen=True)
class MachineCheck:
    """One check of the machine: its state, what was found, and the remedy."""

    subject: str
    state: str
    found: str
    remedy: str = ""


class TinyEnv(gym.Env):
    """A minimal env, to check whether a worker can step it."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(1, np.float32), 0.0, False, False, {}


@dataclass(frozen=True, repr=False)
class MachineReport:
    """Returned by `rookery.doctor`: what was found, and what is missing."""

    checks: list[MachineCheck]

    @property
    def ok(self) -> bool:
        """Whether worker processes can be started at all."""
        return any(one.subject.startswith("workers by") and one.state == GOOD for one in self.checks)

    def __repr__(self) -> str:
        notes = "; ".join(f"{one.subject}: {one.found}" for one in self.checks if one.state != GOOD)
        return f"MachineReport({'ready' if self.ok else 'worker processes cannot be started'}; {notes or 'no notes'})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"ok": self.ok, "findings": [asdict(one) for one in self.checks], "machine": machine_facts("torch")}

    def print(self) -> None:
        """Print it as a table."""
        _print(self)


def doctor() -> MachineReport:
    """Check this machine: cores, limits, memory, GPU, packages. Starts one worker with each start method."""
    machine = [_cores(), _memory(), _shared_memory(), _open_files()]
    more = [*_start_methods(), _loops(), MachineCheck("gpu", *gpu_state()), *_packages(), *_extras()]
    return MachineReport([*machine, *more])


def _cores() -> MachineCheck:
    have, mine, quota = psutil.cpu_count() or 1, len(allowed_cores()), cpu_quota()
    limits = []
    if mine < have:
        limits.append(f"affinity allows {mine}")
    if quota is not None:
        limits.append(f"the cgroup allows {quota:g}")
    found = f"{usable_cores()} usable of {have}" + (
        f": {', '.join(limits)}" if limits else ", no affinity or cgroup limit"
    )
    if usable_cores() == 1:
        return MachineCheck("cores", NOTE, found, "on one core, worker processes help only if steps wait")
    return MachineCheck("cores", GOOD, found)


def _memory() -> MachineCheck:
    machine, mine = psutil.virtual_memory(), available_memory()
    found = f"{size_text(mine)} available of {size_text(machine.total)}"
    if mine < 0.9 * machine.available:
        found += f" (limited by the cgroup; the machine has {size_text(machine.available)})"
    if mine < 2**30:
        return MachineCheck("memory", NOTE, found, "a worker process needs about 50 MiB before its first env")
    return MachineCheck("memory", GOOD, found)


def _shared_memory() -> MachineCheck:
    shm = shutil.disk_usage(SHM) if os.path.isdir(SHM) else None
    beside = f"{SHM} has {size_text(shm.free)} free" if shm else f"no {SHM}"
    try:
        os.close(os.memfd_create("rookery-doctor"))
    except (AttributeError, OSError) as error:
        remedy = "worker processes use files and sockets instead: see docs/platforms.md"
        return MachineCheck("shared memory", NOTE, f"no memfd ({error}); {beside}", remedy)
    if shm and shm.total <= SMALL_SHM:
        remedy = "rookery does not use it, but Gymnasium and torch do: docker run --shm-size=2g"
        return MachineCheck("shared memory", NOTE, f"memfd works; {beside}", remedy)
    return MachineCheck("shared memory", GOOD, f"memfd works; {beside}")


def _open_files() -> MachineCheck:
    try:
        import resource
    except ImportError:
        return MachineCheck("open files", GOOD, "no limit is known on this system")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FEW_FILES:
        return MachineCheck(
            "open files", NOTE, f"at most {soft}", f"many workers need more: ulimit -n {min(hard, 65536)}"
        )
    return MachineCheck("open files", GOOD, f"at most {soft}")


def _start_methods() -> Iterator[MachineCheck]:
    for method in ("spawn",) if PORTABLE else START_METHODS:
        problem = _start_problem(method)
        subject = f"workers by {method}"
        if problem is None:
            yield MachineCheck(subject, GOOD, "a worker was started and stepped an env")
        else:
            yield MachineCheck(subject, BAD, problem, "use another start_method; backend='serial' needs none")


def _start_problem(method: str) -> str | None:
    """Start a worker and step an env in it. Returns the error, or None."""
    from rookery.engine.env_factory import resolve
    from rookery.engine.process import ProcessEngine
    from rookery.engine.settings import Settings

    try:
        envs = ProcessEngine(resolve(TinyEnv), Settings(num_envs=1, start_method=method, step_timeout=20.0))
        try:
            envs.reset(seed=0)
            envs.step(np.zeros(1, np.int64))
        finally:
            envs.close()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return f"{type(error).__name__}: {error}"
    return None


def _loops() -> MachineCheck:
    subject = "the engine's loops"
    if loops.COMPILED:
        return MachineCheck(subject, GOOD, "compiled")
    if loops.compiled():
        return MachineCheck(subject, NOTE, "plain Python, 10 % slower on short steps", "unset ROOKERY_PLAIN")
    remedy = "install a C compiler and Python's headers (gcc, python3-dev), then reinstall rookery"
    return MachineCheck(subject, NOTE, "plain Python, 10 % slower on short steps: they were not compiled", remedy)


def _packages() -> Iterator[MachineCheck]:
    yield MachineCheck("python", GOOD, f"{sys.version.split()[0]} at {sys.executable}")
    for name in ("rookery", "gymnasium", "numpy", "torch"):
        version = package_version(name)
        if version is not None:
            yield MachineCheck(name, GOOD, version)


def _extras() -> Iterator[MachineCheck]:
    """The extras of rookery."""
    for extra, packages in sorted(extras().items()):
        missing = [name for name in packages if package_version(name) is None]
        subject = f"extra {extra}"
        if missing:
            yield MachineCheck(subject, NOTE, f"missing: {', '.join(missing)}", f"pip install 'rookery[{extra}]'")
        else:
            yield MachineCheck(subject, GOOD, ", ".join(f"{name} {package_version(name)}" for name in packages))


def _print(report: MachineReport) -> None:
    findings = report.checks
    table = printing.table("", "", "", "")
    table.show_header, table.title = False, None
    for f in findings:
        text = Text(f.found)
        if f.remedy:
            text.append(f"\n{f.remedy}", style="italic")
        table.add_row(Text(f.state, style=_STYLES[f.state]), f.subject, text)
    out = printing.console()
    out.print(table)
    notes = sum(f.state != GOOD for f in findings)
    if not report.ok:
        out.print("\nWorker processes cannot be started here; backend='serial' is what remains.", style="bold red")
    else:
        above = f" {notes} note{'s' * (notes > 1)} above." if notes else ""
        out.print(f"\nReady.{above}", style="bold")


WHEELS = "https://download.pytorch.org/whl/"
CUDA = "device='cuda' trains on it: kernel worlds step on the GPU too (backend='cuda'), others on CPU cores"
ROCM = "device='cuda' trains on it, by torch's ROCm; kernel worlds step on CPU threads (backend='kernel')"
NO_ROCM_DEVICE = "the user needs access to /dev/kfd and /dev/dri: usually by the groups render and video"
MPS = "device='mps' trains on it, in single precision; kernel worlds step on CPU threads (backend='kernel')"
AMD_DRIVER = Path("/dev/kfd")  # what its kernel driver offers to programs


def gpu_state() -> tuple[str, str, str]:
    """The state ("ok" or "note"), what was found, and the remedy."""
    torch = package_version("torch") or ""
    if nvidia := nvidia_cards():
        return _found("; ".join(nvidia), CUDA, "CUDA" if "+cpu" in torch or "+rocm" in torch else "")
    if "+rocm" in torch:
        found = _torch_device()
        return ("ok", f"{found[0]}: {ROCM}", "") if found else ("note", "none found by torch's ROCm", NO_ROCM_DEVICE)
    if torch and AMD_DRIVER.exists():
        return _found("an AMD GPU", ROCM, "ROCm")
    found = _torch_device() if torch and "+cpu" not in torch else None
    if found is not None:
        return "ok", f"{found[0]}, found by torch: {found[1]}", ""
    if platform.system() == "Darwin" and platform.machine() == "arm64" and torch:
        return "note", f"an Apple GPU, which torch {torch} does not find", "update macOS (12.3 or later) and torch"
    return "ok", "none found; stepping envs does not need one", ""


def _found(cards: str, what: str, missing: str) -> tuple[str, str, str]:
    """Cards that are there; `missing` is what torch was built without."""
    if missing:
        return "note", cards, f"torch is built without {missing}: install it from {WHEELS} for your driver"
    return "ok", f"{cards}: {what}", ""


def nvidia_cards() -> list[str]:
    """NVIDIA's GPUs, as their driver knows them: torch may be missing, or built without CUDA."""
    try:
        driver = load_driver()
    except OSError:
        return []
    count, handle, size, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    cards = []
    for number in range(count.value):
        driver.cuDeviceGet(ctypes.byref(handle), number)
        driver.cuDeviceGetName(name, len(name), handle)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), handle)
        cards.append(f"{name.value.decode()}, {size.value >> 20} MiB")
    return cards


def _torch_device() -> tuple[str, str] | None:
    """The name of the GPU that torch finds, and what a run does on it. Imports torch, which takes seconds."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(), CUDA if torch.version.hip is None else ROCM
    return ("Apple GPU", MPS) if torch.backends.mps.is_available() else None
