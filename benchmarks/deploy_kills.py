"""Promotions that are killed at random moments, by one deployer or two at once: the champion must always load, and the
log must be true.

    python benchmarks/deploy_kills.py                # 50 kills of deployers that promote without a pause
    python benchmarks/deploy_kills.py --deploys 6    # and so many kills of the complete command `rookery deploy`
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.deploy.registry import Registry
from rookery.errors import RegistryError, RookeryError
from rookery.training.storage.registry_folder import check_files

LONGEST = 0.6  # seconds of work before a kill
FORK = multiprocessing.get_context("fork")  # a deployer that has been imported already begins at once


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="kills of deployers (50)")
    parser.add_argument("--deploys", type=int, default=4, metavar="N", help="kills of `rookery deploy` (4)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deploy-kills-") as folder:
        row = measure(Path(folder), options.kills, options.deploys, random.Random(options.seed))
    print(json.dumps(row, indent=2))
    return 1 if row["problems"] else 0


def measure(
    folder: Path, kills: int, deploys: int, moments: random.Random, runs: list[Path] | None = None
) -> dict[str, Any]:
    """Kill deployers, every second time two at once, and check the registry after every kill."""
    runs = runs or [train_run(folder / "runs", seed) for seed in (1, 2)]
    registry = Registry.create(folder / "agents")
    registry.promote(registry.add(runs[0]).number, {"why": "the first one"})  # hashes every source file once
    problems: list[str] = []
    for kill in range(kills):
        many = 1 + kill % 2
        logs = [folder / f"acknowledged-{kill}-{k}" for k in range(many)]
        started = [
            FORK.Process(target=work, args=(registry.folder, run, log)) for run, log in zip(runs, logs, strict=False)
        ]
        for process in started:
            process.start()
        time.sleep(moments.uniform(0.0, LONGEST))
        for process in started:
            process.kill()
            process.join()
            process.close()
        problems += [f"kill {kill}: {problem}" for problem in problems_of(registry, logs)]
    problems += list(kill_commands(registry, runs, deploys, moments))
    left = left_over(registry, problems)
    entries = registry.audit()
    return {
        "kills": kills,
        "commands_killed": deploys,
        "promotions": sum(entry["what"] == "promote" for entry in entries),
        "rollbacks": sum(entry["what"] == "rollback" for entry in entries),
        "versions": len(registry.versions()),
        "left_over": left,
        "problems": problems + ([f"left over: {left}"] if left else []),
    }


def left_over(registry: Registry, problems: list[str]) -> list[str]:
    """What there is beside versions after the next one has put the registry in order."""
    try:
        with registry.changing():
            return [path.name for path in (registry.folder / "versions").iterdir() if not path.name.isdecimal()]
    except RegistryError as error:
        problems.append(f"the registry cannot be put in order: {error}")
        return []


def train_run(runs_dir: Path, seed: int) -> Path:
    """A small run to promote."""
    import rookery

    quiet = {"panel": False, "plot": False, "tensorboard": False}
    result = rookery.train(
        "CartPole-v1", steps=256, num_envs=4, seed=seed, runs_dir=str(runs_dir), monitor=quiet,
        ppo={"hidden": [8], "rollout_length": 16}, evaluation={"episodes": 1}, verbose=False,
    )  # fmt: skip
    return result.path


def work(folder: Path, run: Path, acknowledged: Path) -> None:
    """Add, promote and roll back without a pause. What has returned is written down before the next change begins."""
    registry = Registry(folder)
    with acknowledged.open("ab", buffering=0) as file:
        for number in range(10**9):
            try:
                champion = registry.champion_number()
                version = registry.add(run, {"world": "CartPole-v1"}).number
                registry.promote(version, {"why": "a test"}, instead_of=champion)
                file.write(b"%d\n" % version)
                if number % 3 == 1:
                    registry.rollback()
            except RegistryError:  # the other deployer promoted in the meantime, or is at work
                continue


def problems_of(registry: Registry, acknowledged: list[Path]) -> Iterator[str]:
    """What is wrong, as a reader sees it before anybody puts anything in order."""
    import rookery

    try:
        for alias in ("champion", "previous"):
            if alias in registry.aliases():
                rookery.load(f"registry:{registry.folder}@{alias}")
        for version in registry.versions()[-20:]:
            check_files(version.folder)
        entries = registry.audit()
    except RookeryError as error:
        yield str(error)
        return
    yield from untrue_entries(entries, registry.aliases())
    promoted = {entry["to"] for entry in entries if entry["what"] == "promote"}
    for log in acknowledged:
        lost = [line for line in (log.read_text() if log.exists() else "").split() if int(line) not in promoted]
        if lost:
            yield f"promotions that had returned are not in the log: {lost}"


def untrue_entries(entries: list[dict[str, Any]], aliases: dict[str, int]) -> Iterator[str]:
    """Play the log from its beginning: every change must begin where the one before ended, and end at the aliases."""
    state: dict[str, int | None] = {"champion": None, "previous": None, "challenger": None}
    for place, entry in enumerate(entries, 1):
        if entry["entry"] != place:
            yield f"entry {entry['entry']} is at place {place}"
        if entry["what"] == "add":
            state["challenger"] = entry["version"]
        elif entry["what"] in ("promote", "rollback"):
            if entry["from"] != state["champion"]:
                yield f"entry {place} is about champion {entry['from']}, and it was {state['champion']}"
            state |= {"champion": entry["to"], "previous": entry["from"]}
            if entry["what"] == "promote" and state["challenger"] == entry["to"]:
                state["challenger"] = None
    if {alias: number for alias, number in state.items() if number is not None} != aliases:
        yield f"the log ends at {state}, and the aliases are {aliases}"


def kill_commands(registry: Registry, runs: list[Path], deploys: int, moments: random.Random) -> Iterator[str]:
    """Kill the complete command at random moments, then let it end."""
    words = ["deploy", "--to", str(registry.folder), "--again", "--episodes", "10", "--margin", "-1000"]
    length = 4.0
    for kill in range(deploys + 1 if deploys else 0):
        run = runs[kill % len(runs)]
        command = [sys.executable, "-m", "rookery", words[0], str(run), *words[1:]]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, errors = process.communicate(timeout=None if kill == deploys else moments.uniform(0.2, 1.0) * length)
            length = time.monotonic() - began
            if process.returncode:
                yield f"`rookery deploy` ended with {process.returncode}: {errors}"
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        for problem in problems_of(registry, []):
            yield f"`rookery deploy`, kill {kill}: {problem}"


if __name__ == "__main__":
    sys.exit(main())
