"""The most steps a second that an env in Python allows, for `cluster_rllib.py`: `python benchmarks/env_maximum.py
SETTINGS`. As many processes as others have workers step the env of 1 ms, and nothing else: no policy, no learner, no
message but one for every hundred steps."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cluster_runs import TOLD
from engine_worlds import Slow

STEPS = 100  # of a message: an episode


def step_env(pipe: Connection) -> None:
    """An episode for each message, until the other process is gone."""
    env = Slow(episode_length=STEPS)
    with suppress(EOFError):
        while pipe.recv():
            env.reset()
            for _ in range(STEPS):
                env.step(0)
            pipe.send(STEPS)


def main() -> None:
    """Step until killed. Nobody waits for the slowest; all stop soon after this process is stopped."""
    context, pipes = get_context("spawn"), []  # forked ones would keep each other's pipes open
    for _ in range(json.loads(sys.argv[1])["runners"]):
        here, there = context.Pipe()
        context.Process(target=step_env, args=(there,), daemon=True).start()
        there.close()
        here.send(True)
        pipes.append(here)
    steps = 0
    while True:
        for pipe in wait(pipes):
            assert isinstance(pipe, Connection)
            steps += pipe.recv()
            pipe.send(True)
        print(TOLD, time.monotonic(), steps, flush=True)


if __name__ == "__main__":
    main()
