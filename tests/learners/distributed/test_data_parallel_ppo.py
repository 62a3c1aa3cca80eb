"""Several processes with a share of the envs each learn what one process with all envs learns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.distributed.thread_ranks import in_threads, thread_ranks
from rookery.errors import OptionError
from rookery.learners.algorithms.ppo import METRICS, PPO
from rookery.learners.execution.ranks import Ranks
from rookery.learners.execution.shared import DataParallel, envs_of_each
from rookery.learners.learner import StepBatch
from rookery.learners.registry import PPOOptions

ENVS, LENGTH, UPDATES = 6, 8, 3
VECTORS = spaces.Box(-1, 1, (4,), np.float32)
IMAGES = spaces.Dict({"picture": spaces.Box(0, 255, (12, 12, 1), np.uint8), "place": VECTORS})
VARIANTS: dict[str, tuple[spaces.Space, spaces.Space, dict[str, Any]]] = {
    "plain": (VECTORS, spaces.Discrete(3), {}),
    "without accelerators": (VECTORS, spaces.Discrete(3), {"accelerate": False}),
    "normalised": (
        VECTORS,
        spaces.Box(-1, 1, (2,), np.float32),
        {
            "normalise_observations": True,
            "normalise_rewards": True,
            "learning_rate_schedule": "linear",
            "noise": "pink",
        },
    ),
    "recurrent": (VECTORS, spaces.Discrete(3), {"recurrent": 8, "normalise_rewards": True}),
    "assets": (VECTORS, spaces.Box(-1, 1, (2,), np.float32), {"share_weights": True, "asset_columns": [1, 1]}),
    "batch size": (VECTORS, spaces.MultiDiscrete([2, 3]), {"batch_size": 10, "clip_values": 0.2}),
    "fewer rows than processes": (VECTORS, spaces.Discrete(2), {"batch_size": 1, "epochs": 1}),
    "stopped by the divergence": (VECTORS, spaces.Discrete(3), {"target_kl": 1e-5, "learning_rate": 3e-3}),
    "advantages as they are": (VECTORS, spaces.Discrete(3), {"normalise_advantages": False}),
    "images in a dict": (IMAGES, spaces.Discrete(3), {"epochs": 2, "minibatches": 2}),
}


def data_parallel(*both: spaces.Space, options: PPOOptions, envs: int = ENVS, seed: int = 0, ranks: Ranks) -> PPO:
    """One process's part of a learner of so many envs."""
    return PPO(*both, options, envs_of_each(envs, ranks), seed, execution=partial(DataParallel, ranks=ranks))


def observe(space: spaces.Space, random: np.random.Generator) -> Any:
    """Observations of all envs."""
    if isinstance(space, spaces.Dict):
        return {name: observe(part, random) for name, part in space.spaces.items()}
    if space.dtype == np.uint8:
        return random.integers(0, 256, (ENVS, *space.shape), np.uint8)
    return random.normal(size=(ENVS, *space.shape)).astype(np.float32)


def part_of(observations: Any, rows: Any) -> Any:
    if isinstance(observations, dict):
        return {name: part[rows] for name, part in observations.items()}
    return observations[rows]


def update_as_replayed(learner: PPO) -> dict[str, float]:
    """As on a GPU, where a replayed graph fills the rollout again and no code of the learner runs in between."""
    metrics = learner.execution.learn(learner.execution.follow_schedules()).tolist()
    for flags in (learner.rollout.terminated, learner.rollout.ended, learner.rollout.starts):
        flags.zero_()
    learner.rollout.forget()
    return dict(zip(METRICS, metrics, strict=True))


def learn(
    learner: PPO, space: spaces.Space, first: int = 0, updates: int = UPDATES, replayed: bool = False
) -> list[dict[str, float]]:
    """Updates on envs with given outcomes, of which the learner sees its own rows."""
    n, metrics = learner.num_envs, []
    own = slice(learner.rank * n, (learner.rank + 1) * n)
    for update in range(first, first + updates):
        random = np.random.default_rng(update)
        learner.progress = update / UPDATES
        for _ in range(LENGTH):
            learner.explore(part_of(observe(space, random), own), slice(0, n))
            rewards, ends = random.normal(size=ENVS).astype(np.float32)[own], random.random((2, ENVS))[:, own] < 0.15
            after = part_of(observe(space, random), own)
            ended = np.flatnonzero(ends.any(0))
            finals = (ended, [part_of(after, k) for k in ended]) if len(ended) else None
            learner.record(slice(0, n), StepBatch(after, rewards, ends[0], ends[1] & ~ends[0], finals))
        metrics.append(learner.update() if not replayed else update_as_replayed(learner))
    return metrics


def assert_close(found: Any, expected: Any, path: str = "") -> None:
    """Trees with equal keys, and arrays equal to float tolerance."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for key in expected:
            assert_close(found[key], expected[key], f"{path}.{key}")
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6, err_msg=path)


QUICK = ("plain", "normalised", "fewer rows than processes")


@pytest.mark.parametrize(
    ("variant", "size"),
    [
        *(pytest.param(name, 2, marks=() if name in QUICK else pytest.mark.slow) for name in VARIANTS),
        *(pytest.param(name, 3, marks=pytest.mark.slow) for name in QUICK),
    ],
)
def test_processes_equal_one_with_all_envs(variant: str, size: int) -> None:
    """Weights, optimizer, statistics and metrics are those of one process with the batch of all."""
    *both, given = VARIANTS[variant]
    options = PPOOptions(rollout_length=LENGTH, **given)
    alone = PPO(*both, options, ENVS, seed=3)
    expected = learn(alone, both[0])

    learners = [data_parallel(*both, options=options, seed=3, ranks=ranks) for ranks in thread_ranks(size)]
    found = in_threads(lambda learner: (learn(learner, both[0]), learner.state()), learners)
    for metrics, state in found:
        assert_close(state, alone.state())
        for mine, theirs in zip(metrics, expected, strict=True):
            assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-5)
        first = found[0][1]["policy"]
        assert all(np.array_equal(first[name], state["policy"][name]) for name in first), "equal bit for bit"


@pytest.mark.slow
def test_a_saved_state_continues_exactly_in_any_number_of_processes() -> None:
    """Two processes save, and two go on bit for bit; one goes on to float tolerance."""
    both = VECTORS, spaces.Discrete(3)
    options = PPOOptions(rollout_length=LENGTH, recurrent=8, normalise_rewards=True, normalise_observations=True)

    def work(learners: list[PPO]) -> tuple[Any, Any, Any]:
        first, again = learners
        learn(first, VECTORS, updates=1)
        saved = first.state()
        learn(first, VECTORS, first=1, updates=1)
        again.load(saved)
        learn(again, VECTORS, first=1, updates=1)
        return saved, first.state(), again.state()

    pairs = [
        [data_parallel(*both, options=options, seed=seed, ranks=ranks) for seed in (3, 4)] for ranks in thread_ranks(2)
    ]
    saved, finished, resumed = in_threads(work, pairs)[0]
    for name, weights in finished["policy"].items():
        assert np.array_equal(weights, resumed["policy"][name]), name
    alone = PPO(*both, options, ENVS, seed=5)
    alone.load(saved)
    learn(alone, VECTORS, first=1, updates=1)
    assert_close(alone.state(), finished)


def test_every_update_is_on_the_present_rollout() -> None:
    """Also if the rollout is only written again, as a replayed graph does."""
    both, options = (VECTORS, spaces.Discrete(3)), PPOOptions(rollout_length=LENGTH)
    alone = PPO(*both, options, ENVS, seed=3)
    learn(alone, VECTORS)
    learners = [data_parallel(*both, options=options, seed=3, ranks=ranks) for ranks in thread_ranks(2)]
    in_threads(lambda learner: learn(learner, VECTORS, replayed=True), learners)
    np.testing.assert_allclose(learners[0].adam.flat.detach(), alone.adam.flat.detach(), rtol=1e-4, atol=2e-6)


def test_envs_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(OptionError, match="5 envs cannot be split over 2 processes"):
        data_parallel(VECTORS, spaces.Discrete(2), options=PPOOptions(), envs=5, ranks=thread_ranks(2)[0])


def test_sums_are_in_the_order_of_ranks() -> None:
    """Sums of floats depend on their order: all processes get the same bits."""
    values = [1e8, -1e8, 1.0]
    found = in_threads(lambda ranks: ranks.sum_(torch.tensor([values[ranks.rank]])), thread_ranks(3))
    assert [float(total) for total in found] == [1.0, 1.0, 1.0]
