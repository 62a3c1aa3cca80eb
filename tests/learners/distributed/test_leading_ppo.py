"""A learner whose gradients others help to compute learns what it learns alone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from learners.distributed.test_data_parallel_ppo import ENVS, LENGTH, QUICK, VARIANTS, VECTORS, assert_close, learn
from learners.distributed.thread_ranks import thread_ranks
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.execution.ranks import RankLost, Ranks
from rookery.learners.execution.shared import Columns, Leading, SharedUpdate, envs_of, help_update, rows_of_envs
from rookery.learners.learner import Tree
from rookery.learners.registry import PPOOptions


class Threads:
    """Helpers that are threads, each with nets of its own."""

    def __init__(self, learners: list[PPO]) -> None:
        self.learners, self.threads = learners, list[threading.Thread]()

    def begin(self, common: Tree, columns: Columns) -> Ranks:
        leader, *others = thread_ranks(len(self.learners) + 1)

        def work(learner: PPO, ranks: Ranks) -> None:
            envs = envs_of(ranks.rank, ranks.size, ENVS)
            part = {name: value[:, envs].numpy().copy() for name, value in columns.items()}
            help_update(learner, ranks, common, part)

        self.threads = [threading.Thread(target=work, args=pair) for pair in zip(self.learners, others, strict=True)]
        for thread in self.threads:
            thread.start()
        return leader

    def end(self) -> None:
        for thread in self.threads:
            thread.join()

    def mend(self, error: RankLost) -> None:
        raise error


@pytest.mark.parametrize(
    ("variant", "size"),
    [
        *(pytest.param(name, 2, marks=() if name in QUICK else pytest.mark.slow) for name in VARIANTS),
        *(pytest.param(name, 4, marks=pytest.mark.slow) for name in QUICK),
    ],
)
def test_helpers_change_nothing(variant: str, size: int) -> None:
    """Weights, optimizer, statistics and metrics are those of one learner with the whole batch."""
    *both, given = VARIANTS[variant]
    options = PPOOptions(rollout_length=LENGTH, **given)
    alone = PPO(*both, options, ENVS, seed=3)
    expected = learn(alone, both[0])
    leader = PPO(*both, options, ENVS, seed=3, execution=Leading)
    others = [PPO(*both, options, 1, seed=k) for k in range(1, size)]
    leader.execution.helpers = Threads(others)
    found = learn(leader, both[0])
    assert_close(leader.state(), alone.state())
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-5)
    for other in others:
        assert torch.equal(other.adam.flat, leader.adam.flat), "equal bit for bit, until the next update is sent"


class Lossy(Threads):
    """The first attempt of the second update breaks after some steps, as if a helper were lost."""

    updates = 0
    mended = 0

    def begin(self, common: Tree, columns: Columns) -> Ranks:
        self.updates += 1
        ranks = super().begin(common, columns)
        if self.updates == 2:
            left, whole = iter(range(5)), ranks.gather

            def gather(own: torch.Tensor) -> Any:
                if next(left, None) is None:
                    ranks.board.barrier.abort()  # type: ignore[attr-defined]
                    raise RankLost("gone")
                return whole(own)

            ranks.gather = gather  # type: ignore[method-assign]
        return ranks

    def mend(self, error: RankLost) -> None:
        self.mended += 1
        self.end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_update_in_which_a_helper_is_lost_is_done_again() -> None:
    """From its beginning: the numbers are those of a run that lost nobody, bit for bit."""
    both = VECTORS, VARIANTS["normalised"][1]
    options = PPOOptions(rollout_length=LENGTH, **VARIANTS["normalised"][2])
    states = []
    for kind in (Threads, Lossy):
        leader = PPO(*both, options, ENVS, seed=3, execution=Leading)
        leader.execution.helpers = helpers = kind([PPO(*both, options, 1)])
        learn(leader, VECTORS)
        states.append(leader.state())
    assert isinstance(helpers, Lossy) and helpers.mended == 1
    for part in ("policy", "adam", "scale"):
        for name, array in states[0][part].items():
            assert np.array_equal(array, states[1][part][name]), (part, name)


def test_every_row_of_a_minibatch_is_one_process() -> None:
    """The shares of all processes are the minibatch."""
    learner = PPO(VECTORS, VARIANTS["plain"][1], PPOOptions(rollout_length=LENGTH), ENVS)
    numbers = torch.arange(LENGTH * ENVS, dtype=torch.float32).reshape(LENGTH, ENVS)
    seen = []
    for ranks in thread_ranks(4):
        learner.generator.manual_seed(1)
        envs = envs_of(ranks.rank, 4, ENVS)
        columns = {"number": numbers[:, envs], "advantages": numbers[:, envs]}
        update = SharedUpdate(learner, ranks, columns, numbers, rows_of_envs(learner, ranks, numbers.shape))
        seen.append([share["number"].tolist() for share in update._minibatches(3)])
    joined = [sorted(number for share in seen for number in share[k]) for k in range(3)]
    learner.generator.manual_seed(1)
    order = torch.randperm(LENGTH * ENVS, generator=learner.generator)
    assert joined == [sorted(part.tolist()) for part in order.split(16)]
