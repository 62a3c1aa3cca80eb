"""What `rookery tune` and `auto` choose beside a program that takes a core: ten times each, as a share of the fastest
in tune's table.

`tune` marks a row of its own table. `auto` starts with an empty cache and makes its choice in a second; its share is
that of the same row in the table that `tune` measured just before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager

import rookery
from rookery.engine.contest import EnginePlan
from rookery.tools import tune

TIMES = 10
WITHIN = 0.9
BUSY_CORE = "while True: pass"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row of the table")
    options = parser.parse_args()
    shares: dict[str, list[float]] = {"tune": [], "auto": []}
    with busy_core():
        for k in range(options.times):
            with empty_cache():
                result = tune.tune(options.env, options.seconds)
            with empty_cache(), closing(rookery.make_vec(options.env)) as envs:
                chosen = EnginePlan(envs.backend, envs.num_envs, envs.workers)
            rates = {trial.plan: trial.steps_per_second for trial in result.trials}
            for name, plan in {"tune": result.best.plan, "auto": chosen}.items():
                shares[name].append(rates.get(plan, 0.0) / max(rates.values()))  # 0: it is not in the table
                print(f"{k + 1:2} {name}: {plan.backend}, {plan.num_envs} envs: {shares[name][-1]:.0%} of the best")
    for name, found in shares.items():
        count = sum(share >= WITHIN for share in found)
        print(f"{name}: within 10 % of the best {count} times of {len(found)}; median {statistics.median(found):.0%}")
    return 0 if min(shares["tune"]) >= WITHIN else 1


@contextmanager
def busy_core() -> Iterator[None]:
    """A program that takes a core."""
    hog = subprocess.Popen([sys.executable, "-c", BUSY_CORE])
    try:
        yield
    finally:
        hog.kill()
        hog.wait()


@contextmanager
def empty_cache() -> Iterator[None]:
    """Nothing was measured before."""
    before = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        try:
            yield
        finally:
            os.environ.pop("XDG_CACHE_HOME") if before is None else os.environ.update(XDG_CACHE_HOME=before)


if __name__ == "__main__":
    sys.exit(main())
