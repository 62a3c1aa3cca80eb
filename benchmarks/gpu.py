"""Everything that rookery promises about a GPU, in one table, beside its peers: `make bench-gpu`, or

    python benchmarks/gpu.py [--only NAME ...] [--peers DIR] [--peer-path DIR] [--json FILE] [--plot FILE]

It takes less than eight minutes on an H200. Each part is a script of its own, which can be run alone, in a process of
its own: one that fails costs the table its rows and nothing else. Peers: see gpu_peers.py. What must be learned over
ten seeds is in gpu_learning.py. Exits with 1 if a row misses what it must reach.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table

from gpu_peers import add_peer_options, peer_arguments
from gpu_start import with_bytecode

PACKAGES = ("torch", "triton", "numba", "numba-cuda", "stable-baselines3", "jax", "gymnasium")


class Part(NamedTuple):
    """A script with rows of the table."""

    script: str
    arguments: tuple[str, ...] = ()
    seconds: int = 60  # that it may take
    peers: bool = False  # whether it takes the options of the peers


PARTS = {
    "ppo": Part("gpu_ppo.py", ("--only", "rows"), 130, peers=True),
    "start": Part("gpu_start.py", ("--only", "command"), 50),
    "off-policy": Part("gpu_offpolicy.py", ("--rounds", "3"), 80),
    "python-envs": Part("gpu_python_envs.py", ("--only", "sac", "--turns", "3"), 50),
    "images": Part("gpu_images.py", (), 70),
    "hockey": Part("hockey_gpu.py", ("--only", "scripted", "self-play", "learning"), 150),
    "identical": Part("gpu_identical.py", ("--only", "ppo-bf16", "ppo-hockey", "sac"), 70),
    "cores": Part("cpu_scaling.py", ("--threads", "1", "16", "--rounds", "3"), 70),
    "envs": Part("gpu_ppo.py", ("--only", "envs"), 110, peers=True),
}


def run_part(name: str, options: Any, folder: Path, most: float = math.inf) -> list[dict[str, Any]]:
    """The rows of a part, as its script has written them; one row that says so if it failed, or if `most`, the seconds
    that are left, were not enough."""
    part = PARTS[name]
    limit = min(part.seconds, max(1.0, most))
    script, rows = Path(__file__).parent / part.script, folder / f"{name}.json"
    arguments = [*part.arguments, "--json", str(rows)]
    if part.peers:
        arguments += peer_arguments(options)
    if name == "envs":
        arguments += ["--curve", str(folder / "curve.json")]
    started, problem = time.perf_counter(), ""
    with (folder / f"{name}.log").open("w") as log:
        command = [sys.executable, str(script), *arguments]
        process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env={**with_bytecode(folder), "COLUMNS": "200"}
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what it has started would disturb the next part
            process.wait()
            problem = f"took longer than {limit:.0f} s"
    print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    if rows.is_file():
        return [{**row, "part": name} for row in json.loads(rows.read_text())]
    text = (folder / f"{name}.log").read_text()
    print(text[-2500:], file=sys.stderr, flush=True)
    last = problem or (text.strip().splitlines() or ["it wrote nothing"])[-1]
    return [{"part": name, "measure": f"{name}: failed", "ours": last[-200:], "theirs": "", "figure": "", "target": "",
             "passed": False}]  # fmt: skip


def print_table(rows: list[dict[str, Any]]) -> None:
    """One line per figure."""
    table = Table(title="rookery on a GPU")
    for column in ("measure", "ours", "theirs", "figure", "must reach", ""):
        table.add_column(column, justify="left" if column == "measure" else "right")
    for row in rows:
        verdict = "[green]pass[/]" if row["passed"] else "[red]miss[/]"
        table.add_row(*(str(row.get(key, "")) for key in ("measure", "ours", "theirs", "figure", "target")), verdict)
    Console(width=160).print(table)


def facts() -> dict[str, Any]:
    """The machine and the versions that the figures belong to."""
    import torch

    found = {"python": platform.python_version(), "cores": os.cpu_count(), "command": " ".join(sys.argv)}
    if torch.cuda.is_available():
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> int:
    """Run the chosen parts, one after the other, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="NAME", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw steps/s against envs here (needs `envs`)")
    parser.add_argument("--seconds", type=float, default=475, help="for all parts (default: %(default)s)")
    add_peer_options(parser)
    args = parser.parse_args()
    started, rows, found = time.perf_counter(), list[dict[str, Any]](), {**facts()}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only or PARTS:
            rows += run_part(name, args, Path(folder), args.seconds - (time.perf_counter() - started))
            if args.json:  # after every part: a run that is cut short has what it measured
                args.json.write_text(
                    json.dumps({"facts": found, "rows": rows, "curve": _curve(Path(folder))}, indent=1)
                )
        curve = _curve(Path(folder))
    print_table(rows)
    if args.plot and curve:
        from gpu_plot import draw

        draw(curve, args.plot, found.get("gpu", ""))
    missed = [row for row in rows if not row["passed"]]
    print(", ".join(f"{key} {value}" for key, value in found.items()))
    print(f"{len(rows) - len(missed)} of {len(rows)} reached, in {time.perf_counter() - started:.0f} s")
    return 1 if missed else 0


def _curve(folder: Path) -> dict[str, Any]:
    file = folder / "curve.json"
    return json.loads(file.read_text()) if file.is_file() else {}


if __name__ == "__main__":
    sys.exit(main())
