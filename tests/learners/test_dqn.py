"""DQN: each part by hand, masks, learning, and going on exactly."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.offpolicy_tools import Corridor, assert_same, play
from rookery.errors import OptionError
from rookery.learners.algorithms.dqn import DQN
from rookery.learners.learner import StepBatch
from rookery.learners.registry import DQNOptions
from rookery.learners.replay_buffer import ReplayBatch

SEEN = spaces.Box(-3, 3, (1,), np.float32)
PARTS = ("dueling", "double", "prioritised")
ALL = slice(0, 4)


def make(
    num_envs: int = 4, seed: int = 0, seen: spaces.Space = SEEN, actions: int = 2, start: int = 0, **options: Any
) -> DQN:
    small = {"hidden": [32, 32], "batch_size": 16, "buffer_size": 3000, "start_steps": 40, "updates_per_step": 0.5}
    return DQN(seen, spaces.Discrete(actions, start=start), DQNOptions(**(small | options)), num_envs, seed)


def batch_of(next_masks: torch.Tensor | None = None) -> ReplayBatch:
    return ReplayBatch(
        leaves=[torch.zeros(3, 1)],
        actions=torch.tensor([0, 1, 0]),
        rewards=torch.tensor([1.0, 2.0, 3.0]),
        discounts=torch.tensor([0.9, 0.0, 0.81]),
        next_leaves=[torch.tensor([[0.5], [1.0], [-1.0]])],
        next_masks=next_masks,
    )


def unlike(learner: DQN) -> DQN:
    """With a target net that differs from the net."""
    learner.target_weights.add_(torch.randn(learner.target_weights.shape, generator=torch.Generator().manual_seed(1)))
    return learner


@torch.no_grad()
def wanted_of(learner: DQN, batch: ReplayBatch) -> torch.Tensor:
    """The targets, as an update computes them."""
    proposed = learner.policy(batch.next_leaves) if learner.options.double else None
    return learner.td_target(batch, learner.policy.encoder(batch.next_leaves), proposed)


@pytest.mark.parametrize("double", [True, False])
def test_targets_by_hand(double: bool) -> None:
    """reward + discount * what the target net says of the action that the net (or the target net itself) prefers."""
    learner, batch = unlike(make(double=double)), batch_of()
    judged = learner.target(batch.next_leaves)
    chooser = learner.policy(batch.next_leaves) if double else judged
    wanted = [
        r + d * judged[k, int(chooser[k].argmax())].item()
        for k, (r, d) in enumerate([(1.0, 0.9), (2.0, 0.0), (3.0, 0.81)])
    ]
    assert wanted_of(learner, batch).tolist() == pytest.approx(wanted, rel=1e-5)


def test_targets_consider_allowed_actions_only() -> None:
    """The next action is chosen among those that will be allowed."""
    masks = torch.tensor([[True, False], [True, True], [False, True]])
    learner, batch = unlike(make()), batch_of(masks)
    judged = learner.target(batch.next_leaves)
    found = wanted_of(learner, batch)
    assert found[0].item() == pytest.approx(1 + 0.9 * judged[0, 0].item(), rel=1e-5)
    assert found[2].item() == pytest.approx(3 + 0.81 * judged[2, 1].item(), rel=1e-5)


def test_priorities_follow_surprise_and_weights_undo_them() -> None:
    """After an update, the drawn transitions have |error|^exponent; a weight is (least priority / priority)^beta."""
    learner = make(priority_exponent=0.5, importance_exponent=0.4, n_step=1)
    play(learner, Corridor(4, 20, 0), 30)
    learner.execution.steps = 25_000
    places, weights = learner.sample_indices()
    priorities = learner.tree.priorities(places.numpy())
    assert weights is not None
    wanted = (priorities.min() / priorities) ** 0.7
    assert weights.numpy() == pytest.approx(wanted, rel=1e-5)
    learner.execution.sample_indices = lambda: (places, weights)
    batch = learner.replay.batch(places)
    errors = learner.policy(batch.leaves).gather(1, batch.actions.unsqueeze(1)).squeeze(1) - wanted_of(learner, batch)
    learner.train_step(learner.updates + 1)
    found = learner.tree.priorities(places.numpy())
    assert found == pytest.approx((errors.detach().double().abs().numpy() + 1e-6) ** 0.5, rel=1e-4)


def test_new_transitions_come_first() -> None:
    """They get the largest priority there is."""
    learner = make()
    play(learner, Corridor(4, 20, 0), 5)
    assert set(learner.tree.priorities(slice(0, learner.replay.size)).tolist()) == {1.0}
    assert learner.tree.total == learner.replay.size


@pytest.mark.parametrize("off", [*[{part: False} for part in PARTS], {"n_step": 1}, dict.fromkeys(PARTS, False)])
def test_each_part_can_be_switched_off(off: dict[str, Any]) -> None:
    """And the rest still learns something."""
    learner = make(**off)
    before = learner.adam.flat.detach().clone()
    play(learner, Corridor(4, 20, 0), 40)
    assert learner.updates > 20
    assert not torch.equal(before, learner.adam.flat)


def test_the_target_net_is_copied_now_and_then() -> None:
    """Every `target_every` updates, by tau of the way."""
    learner = make(target_every=3, tau=0.5)
    first = learner.target_weights.clone()
    play(learner, Corridor(4, 20, 0), 10)
    learner.execution.updates_due = 2.0
    learner.update()
    assert torch.equal(learner.target_weights, first)
    learner.execution.updates_due = 1.0
    learner.update()
    assert torch.allclose(learner.target_weights, (first + learner.adam.flat.detach()) / 2)


def test_masked_actions_are_never_taken() -> None:
    """Neither by chance nor by preference, at the start or later; in the env's own numbers."""
    learner = make(actions=4, start=10, epsilon_end=0.5)
    rng = np.random.default_rng(0)
    mask = np.array([[True, False, False, True]] * 4)
    for _ in range(60):
        seen = rng.normal(size=(4, 1)).astype(np.float32)
        actions = learner.explore(seen, ALL, mask)
        assert mask[np.arange(4), actions - 10].all()
        mask = rng.random((4, 4)) < 0.5
        mask[np.arange(4), rng.integers(4, size=4)] = True
        learner.record(ALL, StepBatch(seen, np.ones(4), np.zeros(4, np.bool_), np.zeros(4, np.bool_), None, mask))
        while learner.ready():
            learner.update()
    assert learner.updates > 50
    assert mask[np.arange(4), learner.agent.act(seen, mask=mask) - 10].all()


def test_masks_are_stored_for_the_next_observation() -> None:
    """The one told by `record`; at the end of an episode all is allowed unless the last observation tells."""
    seen = spaces.Dict(where=SEEN, action_mask=spaces.MultiBinary(2))
    learner = make(num_envs=3, seen=seen, n_step=1)
    rows, masks = slice(0, 3), np.array([[True, False], [False, True], [True, False]])
    batch = {"where": np.zeros((3, 1), np.float32), "action_mask": masks}
    learner.explore(batch, rows, masks)
    finals = (np.array([1, 2]), [{"where": np.zeros(1, np.float32), "action_mask": np.array([1, 0])}, {"where": [0.0]}])
    cut = np.array([False, True, True])
    learner.record(rows, StepBatch(batch, np.zeros(3), np.zeros(3, np.bool_), cut, finals, masks))
    kept = learner.replay.batch(torch.arange(3)).next_masks
    assert kept is not None
    assert kept.tolist() == [[True, False], [True, False], [True, True]]


def test_epsilon_falls_and_can_differ_between_envs() -> None:
    """From start to end over its part of the run; spread, the first env explores most."""
    learner = make(epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=500)
    shares = []
    for learner.execution.steps in (0, 250, 500, 1000):
        shares.append(learner.epsilon(ALL))
    assert shares == pytest.approx([1.0, 0.6, 0.2, 0.2])
    spread = make(epsilon_start=0.5, epsilon_per_env=True)
    found = spread.epsilon(ALL).flatten().tolist()
    assert found == pytest.approx([0.5 ** (1 + 7 * k / 3) for k in range(4)])
    assert spread.epsilon(slice(2, 4)).flatten().tolist() == pytest.approx(found[2:])


def test_epsilon_can_fall_with_each_episode() -> None:
    """Counted over all envs, down to its end, whatever the number of steps."""
    learner = make(epsilon_start=0.8, epsilon_end=0.2, epsilon_decay=0.5, epsilon_steps=1)
    seen, quiet = np.zeros((4, 1), np.float32), np.zeros(4, np.bool_)
    shares = [learner.epsilon(ALL)]
    for ended in ([], [1], [0, 2], [3]):
        learner.explore(seen, ALL)
        cut = quiet.copy()
        cut[ended] = True
        finals = (np.array(ended), [seen[0]] * len(ended)) if ended else None
        learner.record(ALL, StepBatch(seen, np.zeros(4), quiet, cut, finals))
        shares.append(learner.epsilon(ALL))
    assert shares == pytest.approx([0.8, 0.8, 0.4, 0.2, 0.2])


@pytest.mark.parametrize(("loss", "grad"), [("huber", 1.0), ("squared", 5.0)])
def test_an_error_of_five_pulls_once_or_five_times(loss: str, grad: float) -> None:
    """By the Huber loss as hard as an error of one, by its square five times as hard; the figure is the gradient of the
    value's own bias, averaged over the batch."""
    learner = make(loss=loss, prioritised=False, n_step=1, max_grad_norm=None)
    play(learner, Corridor(4, 20, 0), 20)
    learner.td_target = lambda batch, *_: (
        learner.policy(batch.leaves)
        .gather(  # type: ignore[method-assign]
            1, batch.actions.unsqueeze(1)
        )
        .squeeze(1)
        - 5.0
    )
    learner.train_step(learner.updates + 1)
    assert learner.policy.net.value.bias.grad.item() == pytest.approx(grad, rel=1e-4)


def test_updates_are_counted_by_steps_or_rounds() -> None:
    """Of 4 envs, after 40 random steps: 10 more rounds are 40 steps."""
    made = []
    for each in ("step", "round"):
        learner = make(updates_per_step=1.0, updates_each=each, n_step=1)
        play(learner, Corridor(4, 20, 0), 21)  # the last round's are still owed
        made.append(learner.updates)
    assert made == [40, 10]


def test_half_a_round_is_half_an_update() -> None:
    """Groups of envs that are recorded apart make one round together."""
    learner = make(updates_each="round", updates_per_step=1.0, start_steps=0, n_step=1)
    seen, quiet = np.zeros((2, 1), np.float32), np.zeros(2, np.bool_)
    for rows in (slice(0, 2), slice(2, 4)):
        learner.explore(seen, rows)
        learner.record(rows, StepBatch(seen, np.zeros(2), quiet, quiet))
    assert learner.updates_due == 1.0


def test_the_share_of_random_actions_is_epsilon() -> None:
    """Half of the random ones hit the best action by chance."""
    learner = make(num_envs=4000, start_steps=0, buffer_size=20_000, epsilon_start=0.4, epsilon_end=0.4)
    seen = np.full((4000, 1), 0.5, np.float32)
    best = learner.agent.act(seen, deterministic=True)
    assert np.mean(learner.explore(seen, slice(0, 4000)) != best) == pytest.approx(0.2, abs=0.03)
    assert np.mean(learner.agent.act(seen) != best) == pytest.approx(0.2, abs=0.03)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prioritised": False, "dueling": False, "n_step": 1, "normalise_observations": True},
        {"normalise_rewards": True, "epsilon_per_env": True, "buffer_size": 50, "tau": 0.1, "target_every": 2},
        {"epsilon_decay": 0.97, "updates_each": "round", "updates_per_step": 3.0, "loss": "squared"},
    ],
)
def test_going_on_is_exact(options: dict[str, Any]) -> None:
    """Saved in the middle and loaded into a new learner, both go on bit for bit alike."""
    learner, envs = make(**options), Corridor(4, 7, 0)
    seen = play(learner, envs, 40)
    other = make(seed=99, **options)
    other.load(copy.deepcopy(learner.state()))
    play(other, copy.deepcopy(envs), 40, seen)
    play(learner, envs, 40, seen)
    assert learner.updates == other.updates > 100
    assert_same(learner.state(), other.state())


def test_without_its_replay_it_gathers_first() -> None:
    """A state that leaves buffer and priorities out can be loaded."""
    learner, envs = make(), Corridor(4, 7, 0)
    seen = play(learner, envs, 40)
    other = make(seed=1)
    play(other, Corridor(4, 7, 0), 5)
    other.load(learner.state(replay=False))
    assert (other.replay.size, other.tree.total) == (0, 0.0)
    play(other, envs, 10, seen)
    assert other.updates == learner.updates
    play(other, envs, 5)
    assert other.updates > learner.updates


def test_another_number_of_envs_keeps_the_replay() -> None:
    """And goes on learning."""
    learner = make(epsilon_per_env=True)
    play(learner, Corridor(4, 20, 0), 20)
    kept, updates = learner.replay.size, learner.updates
    learner.resize(6)
    play(learner, Corridor(6, 20, 1), 5)
    assert learner.replay.size > kept
    assert learner.updates > updates


def test_other_action_spaces_are_refused() -> None:
    """With what could serve them."""
    with pytest.raises(OptionError, match="DQN cannot act in Box"):
        DQN(SEEN, spaces.Box(-1, 1, (1,)), DQNOptions(), 1)


def test_the_workload_changes_nothing() -> None:
    """It can be run at any time."""
    learner = make()
    before = copy.deepcopy(learner.state())
    learner.workload()()
    assert_same(before, learner.state())


@pytest.mark.slow
def test_images() -> None:
    """Are read by convolutions, of which the target net has its own."""
    seen = spaces.Box(0, 255, (10, 10), np.uint8)
    learner = make(seen=seen)
    for _ in range(30):
        pictures = np.stack([seen.sample() for _ in range(4)])
        learner.explore(pictures, ALL)
        while learner.ready():
            learner.update()
        learner.record(ALL, StepBatch(pictures, np.ones(4), np.zeros(4, np.bool_), np.zeros(4, np.bool_)))
    assert learner.updates > 20
    assert learner.target.encoder.images["0"] is not learner.policy.encoder.images["0"]


@pytest.mark.parametrize("parts", [{}, dict.fromkeys(PARTS, False) | {"n_step": 1}])
def test_it_learns_to_go_right(parts: dict[str, Any]) -> None:
    """From everywhere but the very left end, and what that is worth, after a few thousand steps. Where it goes right it
    soon sees little of the left, and may forget about it, so this must be so at some time, not at the end."""
    slowly = {"target_every": 20, "tau": 1.0, "epsilon_end": 0.2, "epsilon_steps": 320, "importance_steps": 3_200}
    learner = make(learning_rate=3e-3, **slowly, **parts)
    envs, seen = Corridor(4, 30, 0), None
    for _ in range(20):
        seen = play(learner, envs, 100, seen)
        if goes_right(learner):
            return
    pytest.fail("it never did")


def goes_right(learner: DQN) -> bool:
    places = np.linspace(-0.8, 0.9, 50, dtype=np.float32)[:, None]
    value = learner.policy([torch.tensor([[0.9]])]).max().item()
    return bool((learner.agent.act(places, deterministic=True) == 1).all()) and abs(value - 1.0) < 0.15
