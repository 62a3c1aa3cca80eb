"""One function per row of the kernel worlds' table, for the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import hockey_fidelity as fidelity
import hockey_outcomes as outcomes
import rookery
from engine_rows import Row, ratio_row
from measure import in_turns, rate, stepper
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.hockey.world import Hockey

SAMPLE = Path(__file__).parent.parent / "tests" / "worlds" / "hockey_rows.npz"
POSITIONS, VELOCITIES = (0, 1, 2, 6, 7, 8, 12, 13), (3, 4, 5, 9, 10, 11, 14, 15)
ORIGINAL_HOCKEY = 4870  # steps/s of one core running the original


def cartpole_rows(rounds: int, **_: Any) -> list[Row]:
    """Against EnvPool, whose envs are written in C++."""
    try:
        import envpool
    except ImportError:
        print("EnvPool is not installed (pip install envpool): its rows are skipped", file=sys.stderr)
        return []
    rows = []
    for n, least in ((8, 10), (64, 25), (512, 60)):
        theirs = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=n, num_threads=2, seed=1)
        ours = rookery.make_vec("rookery/CartPole-v1", n)
        sides = {"ours": stepper(ours, n), "theirs": _envpool_stepper(theirs, n)}
        found = in_turns(sides, rounds)
        rows.append(ratio_row(f"CartPole n={n}, kernel / EnvPool", found["ours"], found["theirs"], least))
    return rows


def _envpool_stepper(envs: Any, n: int) -> Any:
    envs.reset()
    actions = np.random.default_rng(0).integers(0, 2, (64, n)).astype(np.int32)
    state = {"k": 0}

    def step() -> None:
        state["k"] += 1
        envs.step(actions[state["k"] % 64])

    return lambda: rate(step, n)


def hockey_speed_row(rounds: int, **_: Any) -> list[Row]:
    """Random actions against the strong script, on all cores."""
    envs = rookery.make_vec("rookery/HockeyOne-v0", 1024, env_kwargs={"opponent": "strong"})
    measure = stepper(envs, 1024, seconds=0.5)
    measure()  # to where games differ
    speeds = np.array([measure() for _ in range(rounds)])
    median = float(np.median(speeds))
    original = f"{ORIGINAL_HOCKEY:,}/s a core"
    return [Row("hockey n=1,024, script inside, all cores", f"{median:,.0f}/s", original, median / 1e6, 1.0, " M/s")]


def plain_row(rounds: int, **_: Any) -> list[Row]:
    """Plain Python beside compiled code, each step from the same state."""
    compiled, plain = KernelEnv(Hockey), KernelEnv(Hockey, plain=True)
    compiled.reset(seed=2), plain.reset(seed=2)
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(500):
        plain.set_state(compiled.get_state())
        action = rng.uniform(-1, 1, 8).astype(np.float32)
        one, other = compiled.step(action), plain.step(action)
        worst = max(worst, float(np.abs(one[0] - other[0]).max()), abs(one[1] - other[1]))
        if one[2] or one[3]:
            compiled.reset()
    return [Row("hockey, plain and compiled, 500 steps", "", "", worst * 1e5, 1.0, "e-5", most=True)]


def identity_row(rounds: int, **_: Any) -> list[Row]:
    """Trajectories of the envs that batches of different size share, on one thread and on two."""
    actions = np.random.default_rng(0).uniform(-1, 1, (250, 64, 4)).astype(np.float32)
    expected, different = None, 0
    for n in (64, 7, 1):
        for threads in {1, min(2, n)}:
            envs = rookery.make_vec("rookery/HockeyOne-v0", n, workers=threads, env_kwargs={"opponent": "strong"})
            envs.reset(seed=5)
            steps = [envs.step(batch[:n])[:4] for batch in actions]
            envs.close()
            expected = expected or steps
            for mine, first in zip(steps, expected, strict=True):
                different += sum(not np.array_equal(a, b[:n]) for a, b in zip(mine, first, strict=True))
    return [Row("hockey, n=1, 7, 64 and 1, 2 threads: arrays that differ", "", "", different, 1, "", most=True)]


def fidelity_rows(rounds: int, reference: Path | None = None) -> list[Row]:
    """Against recorded steps of the original; without a file, against the sample in tests/."""
    rows = fidelity.read_rows(reference or SAMPLE)
    found = fidelity.measure(rows)
    free, contact = found["without contact"], found["with contact"]
    names = fidelity.COMPONENTS
    worst_free = max(free[name]["99"] for name in names)
    position = max(contact[names[k]]["90"] for k in POSITIONS)
    velocity = max(contact[names[k]]["90"] for k in VELOCITIES)
    events = [
        found[key][share] for key in found if key.startswith(("catches", "goals")) for share in ("precision", "recall")
    ]
    known = [share for share in events if share is not None]
    label = f"hockey, {found['rows']:,} recorded steps"
    return [
        Row(f"{label}: without contact, 99 % within", "", "", worst_free * 1e3, 1.0, "e-3", most=True),
        Row(f"{label}: with contact, 90 % of positions within", "", "", position * 1e3, 20, "e-3", most=True),
        Row(f"{label}: with contact, 90 % of velocities within", "", "", velocity * 1e3, 1000, "e-3", most=True),
        Row(f"{label}: worst of precision and recall", "", "", 100 * min(known), 95, " %"),
        Row(f"{label}: rewards within 1e-3", "", "", 100 * found["rewards within 1e-3"], 98, " %"),
    ]


def outcome_rows(rounds: int, **_: Any) -> list[Row]:
    """2,000 games of every pairing, against the original's shares."""
    rows = []
    for name, mode, first, second, original in outcomes.PAIRINGS:
        ours = outcomes.play(mode, first, second, 2000)
        points = 100 * max(abs(a - b) for a, b in zip(ours[:3], original[:3], strict=True))
        rows.append(Row(f"hockey, {name}", _shares(ours), _shares(original), points, 5, " points", most=True))
    return rows


def _shares(outcome: Any) -> str:
    return " ".join(f"{share:.3f}" for share in outcome[:3])


SECOND_START = """
import time; started = time.perf_counter()
import numpy as np, rookery
envs = rookery.make_vec("rookery/HockeyOne-v0", 1024)
envs.reset(seed=1)
envs.step(np.zeros((1024, 4), np.float32))
print(time.perf_counter() - started)
"""


def start_row(rounds: int, **_: Any) -> list[Row]:
    """From nothing to the first step, in a process that finds the compiled code on disk."""
    command = [sys.executable, "-c", SECOND_START]
    seconds = [float(subprocess.check_output(command, text=True, env=os.environ.copy())) for _ in range(4)][1:]
    return [Row("hockey, a second process until its first step", "", "", float(np.median(seconds)), 2, " s", most=True)]


ROWS = {
    "cartpole": cartpole_rows,
    "hockey": hockey_speed_row,
    "plain": plain_row,
    "identity": identity_row,
    "fidelity": fidelity_rows,
    "outcomes": outcome_rows,
    "start": start_row,
}
