"""What the cost of a change is measured on: a row is a name and a function that sets the work up.

It is run with the working tree's `rookery` and with another commit's, so it uses what both of them have. It returns a
turn: a function that does the work so many times and says how many seconds that took.

    python benchmarks/cost_rows.py NAME     # one side of a comparison: reads numbers of calls, answers with seconds
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import rookery
from rookery.engine import loops

Turn = Callable[[int], float]


def stepping(world: str, num_envs: int, **options: Any) -> Turn:
    """Steps of a vector env, with actions drawn beforehand."""
    envs = rookery.make_vec(world, num_envs, **options)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = cycle([envs.action_space.sample() for _ in range(64)])
    step = envs.step

    def turn(calls: int) -> float:
        start = perf_counter()
        for batch in islice(actions, calls):
            step(batch)
        return perf_counter() - start

    return turn


ROWS: dict[str, tuple[str, Callable[[], Turn]]] = {
    "cartpole_process": (
        "CartPole-v1, 8 envs, 2 processes",
        partial(stepping, "CartPole-v1", 8, backend="process", workers=2),
    ),
    "cartpole_kernel": ("CartPole, 64 envs, kernel", partial(stepping, "rookery/CartPole-v1", 64)),
    "hockey_kernel": ("hockey, 1,024 games, kernel", partial(stepping, "rookery/HockeyOne-v0", 1024)),
}


def main(name: str) -> None:
    """First says which `rookery` this is; then a line for a line."""
    logging.getLogger("rookery").setLevel(logging.WARNING)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the work itself prints is no answer
    turn = ROWS[name][1]()
    print(rookery.__file__, loops.COMPILED, file=answers)
    for line in sys.stdin:
        print(turn(int(line)), file=answers)


if __name__ == "__main__":
    main(sys.argv[1])
