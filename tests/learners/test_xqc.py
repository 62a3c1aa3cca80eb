"""XQC: distributions by hand, statistics of batches, learning, and going on exactly."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.offpolicy_tools import Centre, assert_same, play
from rookery.learners.accelerator import Accelerator
from rookery.learners.algorithms.xqc import XQC
from rookery.learners.frozen_policy import PackedPolicy, freeze
from rookery.learners.kernels.cpu.host_xqc import HostXQC
from rookery.learners.learner import StepBatch
from rookery.learners.registry import XQCOptions
from rookery.learners.replay_buffer import ReplayBatch

SEEN, DONE = spaces.Box(-3, 3, (1,), np.float32), spaces.Box(-2, 2, (1,), np.float32)


def make(num_envs: int = 4, seed: int = 0, seen: spaces.Space = SEEN, done: spaces.Space = DONE, **options: Any) -> XQC:
    small: dict[str, Any] = {"hidden": [16], "critic_hidden": [32, 24], "batch_size": 32, "buffer_size": 5000}
    return XQC(seen, done, XQCOptions(**small | {"start_steps": 40, "atoms": 21} | options), num_envs, seed)


def test_distributions_are_brought_back_to_the_atoms_by_hand() -> None:
    """Each probability goes to the two nearest atoms, the nearer one gets more; the mean stays."""
    learner = make(atoms=3, value_limit=1.0)
    found = learner.projected(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.0, 0.25, 2.0]]))
    assert torch.allclose(found, torch.tensor([[0.5 + 0.3 * 0.75, 0.3 * 0.25, 0.2]]))


def test_the_accelerated_projection_is_the_plain_one() -> None:
    """Also at both ends, and where several atoms fall into one."""
    learner = make()
    assert type(learner.accelerator) is HostXQC
    places = (torch.linspace(-4, 24, 21) * torch.tensor([[1.0], [0.4], [0.0]])).clamp(0, 20)
    probabilities = torch.rand(3, 21).softmax(1)
    found = learner.projected(probabilities, places)
    torch.testing.assert_close(found, XQC.projected(learner, probabilities, places))
    assert torch.allclose(found.sum(1), torch.ones(3))


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{}, {"tau": 1.0, "max_grad_norm": 1.0}])
def test_accelerated_and_plain_runs_agree(options: dict[str, Any]) -> None:
    """Over many updates, to float tolerance."""
    learners = [make(seed=5, accelerate=accelerate, **options) for accelerate in (True, False)]
    for learner in learners:
        play(learner, Centre(4, 20, 0), 20)
    assert [type(learner.accelerator) for learner in learners] == [HostXQC, Accelerator]
    assert learners[0].updates == learners[1].updates >= 20
    for one, other in zip(*(learner.policy.state_dict().values() for learner in learners), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_targets_by_hand() -> None:
    """The distribution of the doubtful critic, moved by reward + discount * (atom - temperature * log-probability)."""
    learner = make(temperature=0.5, atoms=5, value_limit=2.0, normalise_rewards=False)
    batch = ReplayBatch(
        [torch.zeros(2, 1)], torch.zeros(2, 1), torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.0]), [], None
    )
    high, low = torch.tensor([-99.0, -99, -99, 9, 9]), torch.tensor([9.0, 9, -99, -99, -99])
    logits = torch.stack([torch.stack([high, low]), torch.stack([low, high])])  # [members, rows, atoms]
    found = learner.td_target(batch, logits, torch.tensor([0.5, 0.0]))
    # In row 0: half at -2 and at -1, moved by 1 - 0.25. In row 1 the episode has ended: all at 0.5.
    wanted = torch.tensor([[0.125, 0.5, 0.375, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5, 0.0]])
    assert torch.allclose(found, wanted, atol=1e-5)


def test_present_and_future_have_the_same_statistics() -> None:
    """Those of the joint batch, which the running ones follow; target critics keep none."""
    learner = make()
    play(learner, Centre(4, 20, 0), 12)
    norm, before = learner.critics.ensemble.norms[0], learner.critics.ensemble.norms[0].mean.clone()
    batch = learner.replay.batch(torch.arange(32))
    features = batch.leaves[0]
    learner.joint_logits(batch, features, torch.zeros(32, 1))
    both = torch.cat([features, batch.next_leaves[0]]).mean()
    assert torch.allclose(norm.mean[0], 0.99 * before[0] + 0.01 * both, atol=1e-6)
    assert all(norm.mean is None for norm in learner.targets.ensemble.norms)
    assert learner.frozen_critics.ensemble.norms[0].mean is norm.mean


def test_acting_and_the_workload_leave_statistics_alone() -> None:
    """They belong to gradient steps."""
    learner = make()
    play(learner, Centre(4, 20, 0), 20)
    before = copy.deepcopy(learner.state())
    learner.workload()()
    learner.agent.act(np.ones((7, 1), np.float32))
    assert_same(before, learner.state())


def test_rows_of_weights_keep_their_length() -> None:
    """1, in the hidden layers of actor and critics."""
    learner = make(learning_rate=1e-2)
    play(learner, Centre(4, 20, 0), 30)
    for net in (learner.policy.net, learner.critics.ensemble):
        for weight in net.weights[:-1]:
            assert torch.allclose(weight.norm(dim=-1), torch.ones(weight.shape[:2]), atol=1e-5)


def test_the_frozen_actor_has_no_norms() -> None:
    """They are folded into a plain perceptron, which acts as the policy does."""
    learner = make(seen=spaces.Box(-3, 3, (5,)), done=spaces.Box(-1, 1, (3,)), hidden=[16, 8])
    with torch.no_grad():
        for tensor in (*learner.policy.parameters(), *learner.policy.buffers()):
            tensor.add_(0.2 * torch.rand_like(tensor))
    rows = torch.randn(40, 5)
    frozen = freeze(learner.policy)
    assert isinstance(frozen, PackedPolicy)
    torch.testing.assert_close(
        frozen.on_tensors([rows], None, None, None)[0], learner.policy.act([rows], None, None, None)[0]
    )


def test_scaled_returns_stay_among_the_atoms() -> None:
    """However much the largest exceeds their standard deviation."""
    learner = make(num_envs=2, gamma=0.5, value_limit=1.0)
    for reward in (1.0, 1.0, 1.0, 100.0):
        learner.explore(np.zeros((2, 1), np.float32), slice(0, 2))
        ended = np.zeros(2, np.bool_)
        learner.record(slice(0, 2), StepBatch(np.zeros((2, 1), np.float32), np.full(2, reward), ended, ended))
    assert learner.scale is not None
    assert learner.scaled_rewards(learner.scale.largest).item() == pytest.approx(1.0)
    assert learner.scale.largest.item() == pytest.approx(100.875)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {"n_step": 3, "noise": "pink", "normalise_observations": True, "updates_per_step": 3.0},
        {"temperature": 0.1, "learning_rate_schedule": "linear", "tau": 1.0, "buffer_size": 60, "policy_delay": 2},
    ],
)
def test_going_on_is_exact(options: dict[str, Any]) -> None:
    """Saved in the middle and loaded into a new learner, both go on bit for bit alike."""
    learner, envs = make(**options), Centre(4, 7, 0)
    seen = play(learner, envs, 18)
    other = make(seed=99, **options)
    other.load(copy.deepcopy(learner.state()))
    play(other, copy.deepcopy(envs), 10, seen)
    play(learner, envs, 10, seen)
    assert learner.updates == other.updates > 60
    assert_same(learner.state(), other.state())


def test_images_and_parts() -> None:
    """Dict observations with an image, a choice and a vector: the image's net learns, and it can be saved."""
    seen = spaces.Dict(
        camera=spaces.Box(0, 255, (12, 12, 3), np.uint8), mode=spaces.Discrete(3), speed=spaces.Box(-1, 1, (2,))
    )
    given: dict[str, Any] = {"num_envs": 2, "seen": seen, "done": spaces.Box(-1, 1, (2, 2)), "batch_size": 8}
    learner = make(**given, normalise_observations=True)
    first = learner.policy.encoder.images["0"].project[0].weight.detach().clone()
    for _ in range(26):
        batch = {key: np.stack([space.sample()] * 2) for key, space in seen.items()}
        assert learner.explore(batch, slice(0, 2)).shape == (2, 2, 2)
        ended = np.zeros(2, np.bool_)
        learner.record(slice(0, 2), StepBatch(batch, np.ones(2), ended, ended))
        while learner.ready():
            learner.update()
    assert not torch.equal(learner.policy.encoder.images["0"].project[0].weight, first)
    other = make(seed=5, **given, normalise_observations=True)
    other.load(learner.state())
    assert_same(learner.state(), other.state())


@pytest.mark.slow
def test_it_learns_to_reach_the_middle() -> None:
    """From anywhere, within a few steps: a return near the best there is, -0.4, where random actions get -20."""
    learner = make(learning_rate=3e-3, batch_size=64, policy_delay=1, tau=0.05)
    play(learner, Centre(4, 20, 0), 150)
    envs = Centre(64, 20, 1)
    total, seen = np.zeros(64), envs.observe()
    for _ in range(19):
        seen, rewards, *_ = envs.step(learner.agent.act(seen, deterministic=True))
        total += rewards
    assert total.mean() > -1.5
