"""A program: steps envs while another process sends signals to their workers and fork servers, and checks every number.

    python -m faults.signal_storm [--methods fork ...] [--seconds 60] [--repeats 10] [--seed 0]

It prints one line per run, and exits with 1 if a run did not end well: an error, a number that differs from that of an
env which nobody disturbs, a step longer than step_timeout + 5 s, or something left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import rookery
from faults.envs import Walk
from faults.watch import START_METHODS, action_of, gone_within, own_shared_memory
from rookery.engine.seeding import child_seed
from rookery.engine.workers.forkserver import SERVERS

N, WORKERS, SEED = 8, 4, 5
STEP_TIMEOUT, LONGEST_STEP = 2.0, 7.0
SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV)
MEAN_PAUSE = 0.5  # seconds between two signals
SERVER_SHARE = 0.25  # of the signals, where there is a fork server
PACE = 0.001  # seconds between two steps


@dataclass
class Run:
    """What became of one run."""

    method: str
    seed: int
    steps: int = 0
    restarts: int = 0
    longest_step: float = 0.0
    close_seconds: float = 0.0
    signals: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        sent = " ".join(f"{name}:{count}" for name, count in sorted(self.signals.items()))
        end = "; ".join(self.problems) or "well"
        return (
            f"{self.method:10} {self.seed:4} {self.steps:7} {self.restarts:8} {self.longest_step:8.2f} s "
            f"{self.close_seconds:6.2f} s   {end}   ({sent})"
        )


HEADER = f"{'start':10} {'seed':>4} {'steps':>7} {'restarts':>8} {'longest':>10} {'close':>8}   ended"


# --- the sender, a process of its own: a thread would be in the way of fork -------------------------------------------


def send_signals(target: int, seconds: float, seed: int) -> None:
    """Signals at random times to random descendants of `target`; prints each."""
    chosen, until = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(chosen.expovariate(1 / MEAN_PAUSE), max(0.0, until - time.monotonic())))
        victims = [child for child in psutil.Process(target).children(recursive=True) if child.pid != os.getpid()]
        servers = [child for child in victims if is_server(child, target)]
        workers = [child for child in victims if child not in servers]
        pool = servers if chosen.random() < SERVER_SHARE else workers
        number = chosen.choice(SIGNALS)
        if pool:
            try:
                chosen.choice(pool).send_signal(number)
            except psutil.NoSuchProcess:
                continue
            print(f"{'server' if pool is servers else 'worker'}-{number.name[3:]}", flush=True)


def is_server(process: psutil.Process, target: int) -> bool:
    """Its workers, which it forked, have its command line too."""
    try:
        return process.ppid() == target and any("workers.forkserver import" in part for part in process.cmdline())
    except psutil.Error:
        return False


# --- the numbers ------------------------------------------------------------------------------------------------------


class Twin:
    """The env that one row of the engine should be equal to, stepped here, where no signal comes."""

    def __init__(self, row: int, seed: int) -> None:
        self.row, self.env, self.is_over, self.is_lost = row, Walk(), False, False
        self.env.reset(seed=seed)

    def step(self, action: int, results: tuple, envs: Any) -> bool:
        """Whether the row's results are as they should be."""
        observations, rewards, terminated, truncated, infos = results
        row = self.row
        if infos.get("restarted", np.zeros(N, bool))[row]:
            self.is_lost = True
            return bool(truncated[row]) and not terminated[row] and rewards[row] == 0
        if self.is_lost:  # the step after a restart begins an episode, in an env with the seed of that restart
            restarts = envs._restarts
            self.env = Walk()
            self.env.reset(seed=child_seed(restarts.root_seed, row, restarts._per_env[row]))
            self.is_over, self.is_lost = True, False
        if self.is_over:
            expected: tuple = (self.env.reset()[0], 0.0, False)
        else:
            expected = self.env.step(action)[:3]
        self.is_over = expected[2]
        same = observations[row].tobytes() == expected[0].tobytes()
        return same and rewards[row] == expected[1] and terminated[row] == expected[2] and not truncated[row]


# --- a run ------------------------------------------------------------------------------------------------------------


def possessions() -> tuple[int, set[str]]:
    return len(os.listdir("/proc/self/fd")), own_shared_memory()


def storm(method: str, seconds: float, seed: int) -> Run:
    """One run: step for so many seconds under signals, then a little longer without, and close."""
    run, before = Run(method, seed), possessions()
    envs = rookery.make_vec(
        Walk, N, "process", WORKERS, start_method=method, step_timeout=STEP_TIMEOUT, on_failure="restart",
        max_restarts=100_000, close_timeout=2.0,
    )  # fmt: skip
    envs.reset(seed=SEED)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    sender = subprocess.Popen(
        [sys.executable, "-m", "faults.signal_storm", "--send", str(os.getpid()), str(seconds), str(seed)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    try:
        _step_until_over(envs, sender, run)
    except Exception as error:
        run.problems.append(f"{type(error).__name__}: {error}")
    sender.kill()
    run.signals.update((sender.communicate()[0] or "").split())
    run.restarts = envs.restarts
    servers = {server.pid for server in SERVERS}  # they stay for the next engine
    children = [child.pid for child in psutil.Process().children(recursive=True) if child.pid not in servers]
    start = time.monotonic()
    envs.close()
    run.close_seconds = time.monotonic() - start
    del envs
    _check_end(run, before, children)
    return run


def _step_until_over(envs: Any, sender: subprocess.Popen, run: Run) -> None:
    twins = [Twin(row, SEED + row) for row in range(N)]
    calm_steps = 0
    while calm_steps < 3:  # the last signals may have left workers that are stopped or starting
        actions = np.array([action_of(row, run.steps % 50) for row in range(N)])
        start = time.monotonic()
        results = envs.step(actions)
        run.longest_step = max(run.longest_step, time.monotonic() - start)
        wrong = [
            twin.row
            for twin, action in zip(twins, actions.tolist(), strict=True)
            if not twin.step(action, results, envs)
        ]
        if wrong:
            run.problems.append(f"step {run.steps}: envs {wrong} differ")
            return
        run.steps += 1
        calm = sender.poll() is not None and "restarted" not in results[4]
        calm_steps = calm_steps + 1 if calm else 0
        time.sleep(PACE)


def _check_end(run: Run, before: tuple[int, set[str]], children: list[int]) -> None:
    if run.longest_step > LONGEST_STEP:
        run.problems.append(f"a step took {run.longest_step:.1f} s")
    if not gone_within(children, 3.0):
        run.problems.append("processes are left")
    files, memory = possessions()
    if files > before[0]:
        run.problems.append(f"{files - before[0]} descriptors are left")
    if memory - before[1]:
        run.problems.append("shared memory is left")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--methods", nargs="+", default=list(START_METHODS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print(HEADER, flush=True)
    failed = 0
    for repeat in range(chosen.repeats):
        for method in chosen.methods:
            run = storm(method, chosen.seconds, chosen.seed + repeat)
            failed += bool(run.problems)
            print(run.line(), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        send_signals(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        sys.exit(main())
