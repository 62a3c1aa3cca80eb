"""How much faster a search is with two workers than with one: `make bench-search`, or

    python benchmarks/search.py [--trials 40] [--steps 20000] [--json FILE]

Both sides train the same random trials of PPO on the compiled CartPole, one seed each, without verification, each in a
new study. A first small search fills the caches of compiled code.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path

NEEDED = 1.7
SPACE = {"ppo.learning_rate": {"log": [1e-4, 1e-2]}, "ppo.entropy": {"log": [1e-6, 1e-2]}}


def seconds_of(workers: int, trials: int, steps: int, seed: int) -> float:
    """Seconds of a search, from its call to its result."""
    import rookery

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        started = time.perf_counter()
        result = rookery.search(
            "CartPole-v1", steps=steps, num_envs=8, learner="ppo", n_trials=trials, workers=workers, sampler="random",
            studies_dir=folder, study_name="bench", space=SPACE, verbose=False,
            search={"seeds": 1, "verify": 0, "seed": seed},
        )  # fmt: skip
        seconds = time.perf_counter() - started
    assert result.finished == trials, result.reason
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seconds_of(2, 2, 1_000, seed=99)
    spent = {workers: seconds_of(workers, options.trials, options.steps, seed=0) for workers in (1, 2)}
    ratio = spent[1] / spent[2]
    name = f"{options.trials} small trials, 2 workers over 1"
    print(f"{name}: {spent[1]:.1f} s / {spent[2]:.1f} s = {ratio:.2f}x (needed: {NEEDED}x)")
    if options.json:
        options.json.write_text(json.dumps({"row": name, "one": spent[1], "two": spent[2], "ratio": ratio}))
    return 0 if ratio >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
