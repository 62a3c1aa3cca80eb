"""PPO's own arithmetic and bookkeeping: losses, stops, schedules, memory, masks, resizing, saving."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import Categorical

from learners.scripted import Script, play
from rookery.errors import OptionError, SpaceError
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.learner import StepBatch
from rookery.learners.registry import PPOOptions

VECTOR = spaces.Box(-2, 2, (3,))
CHOICE = spaces.Discrete(3)


def learner_with(num_envs: int = 4, **options: Any) -> PPO:
    settings = {"rollout_length": 6, "hidden": [8], "epochs": 2, "minibatches": 2, **options}
    return PPO(VECTOR, CHOICE, PPOOptions(**settings), num_envs)


def filled(num_envs: int = 4, masked: bool = False, **options: Any) -> PPO:
    """A learner with a full rollout, after an update."""
    learner = learner_with(num_envs, **options)
    script = Script(VECTOR, num_envs, choices=(3,) if masked else ())
    play(learner, script, learner.options.rollout_length)
    learner.update()
    play(learner, script, learner.options.rollout_length)
    return learner


def adam_steps(learner: PPO) -> int:
    return int(learner.adam.state()["step"])


# --- the loss -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", [True, False])
def test_the_loss_is_the_papers(normalise: bool) -> None:
    """Clipped surrogate, half the squared error of the critic and the entropy bonus, each from its definition, with
    weights that have moved far enough for the clip to bite."""
    learner = filled(minibatches=1, normalise_advantages=normalise, entropy=0.03, value_weight=0.7)
    (part,) = learner.rollout.minibatches(learner.evaluate_rollout(), learner.minibatches, learner.generator)
    generator = torch.Generator().manual_seed(2)
    learner.adam.flat.data += 0.3 * torch.randn(learner.adam.flat.shape, generator=generator)
    loss, (_, policy_loss, value_loss, _) = learner.loss(part, 0.1)

    features = learner.policy.encoder([part["leaf0"]])
    chosen = Categorical(logits=learner.policy.actor(features))
    ratio = (chosen.log_prob(part["actions"]) - part["log_probs"]).exp().detach()
    assert ((ratio - 1).abs() > 0.1).any() and ((ratio - 1).abs() < 0.1).any()
    gain = part["advantages"]
    if normalise:
        gain = (gain - gain.mean()) / gain.std()
    surrogate = [min(float(r * a), float(r.clamp(0.9, 1.1) * a)) for r, a in zip(ratio, gain, strict=True)]
    error = (learner.policy.critic(features).squeeze(-1) - part["returns"]).square().mean() / 2
    assert policy_loss.item() == pytest.approx(-np.mean(surrogate), abs=1e-5)
    assert value_loss.item() == pytest.approx(error.item(), rel=1e-5)
    expected = -np.mean(surrogate) + 0.7 * error - 0.03 * chosen.entropy().mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_clipped_values_by_hand() -> None:
    """The worse of two errors counts: of the estimate, and of the estimate held within 1 of the old one."""
    learner = learner_with(clip_values=1.0)
    part = {"values": torch.tensor([0.0, 0.0, 0.0]), "returns": torch.tensor([5.0, 2.0, -1.0])}
    # estimates 4, 0.5 and 3 are held at 1, 0.5 and 1: errors max(1, 16), 2.25 and max(16, 4)
    loss = learner.value_loss(torch.tensor([4.0, 0.5, 3.0]), part)
    assert loss.item() == pytest.approx((16 + 2.25 + 16) / 3 / 2)
    free = learner_with().value_loss(torch.tensor([4.0, 0.5, 3.0]), part)
    assert free.item() == pytest.approx((1 + 2.25 + 16) / 3 / 2)


def test_the_gradient_is_cut() -> None:
    """The figure shows the gradient's length before it was cut; a shorter limit makes another step."""
    cut, free = filled(epochs=1, minibatches=1, max_grad_norm=1e-7), filled(epochs=1, minibatches=1, max_grad_norm=1e7)
    before = cut.adam.flat.detach().clone()
    assert cut.update()["gradient"] > 0.01
    assert torch.isfinite(cut.adam.flat).all()
    assert (cut.adam.flat - before).abs().max() < 3e-4
    assert free.update()["gradient"] > 0.01


def test_entropy_reward_keeps_the_policy_random() -> None:
    """With nothing to gain, a large weight on entropy makes a decided policy indifferent again."""
    learner = learner_with(entropy=1.0, learning_rate=0.03, epochs=10)
    learner.policy.actor.layers[-1].bias.data.copy_(torch.tensor([3.0, 0.0, 0.0]))
    script = Script(VECTOR, 4)
    play(learner, script, 6)
    learner.rollout.rewards.zero_()
    first = learner.update()["entropy"]
    for _ in range(4):
        play(learner, script, 6)
        learner.rollout.rewards.zero_()
        last = learner.update()["entropy"]
    assert first < 0.8 < 1.0 < last <= np.log(3) + 1e-6


# --- stops and schedules --------------------------------------------------------------------------------------------


def test_every_epoch_goes_through_all_minibatches() -> None:
    """5 epochs of 3 minibatches are 15 steps."""
    assert adam_steps(filled(epochs=5, minibatches=3)) == 15


def test_minibatches_can_be_told_by_their_size() -> None:
    """24 rows in parts of at most 5 are 5 parts; of more rows than there are, one."""
    assert adam_steps(filled(epochs=1, batch_size=5)) == 5
    assert adam_steps(filled(epochs=1, batch_size=1000)) == 1


def test_divergence_stops_an_update_after_an_epoch() -> None:
    """Once the policy has moved further than the target, no further epoch begins; a far target is never met."""
    assert adam_steps(filled(epochs=5, minibatches=2, target_kl=1e-12)) == 2
    assert adam_steps(filled(epochs=5, minibatches=2, target_kl=1e3)) == 10


def test_forgetting_voids_an_unfinished_rollout() -> None:
    """Envs that were reset from outside begin a rollout of their own: nothing reaches across the reset."""
    learner = learner_with()
    play(learner, Script(VECTOR, 4), 3)
    assert learner.steps_since_update > 0 and not learner.ready()
    learner.reset_envs(slice(0, 4))
    assert learner.steps_since_update == 0 and learner.can_resize


def test_schedules_follow_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning rate and clip fall in a straight line to 0; at the end nothing is learned."""
    learner = filled(learning_rate=0.01, learning_rate_schedule="linear", clip_schedule="linear", clip=0.4)
    learner.progress = 0.75
    clips, improve = list[float](), learner.accelerator.update

    def watched(clip: float) -> Any:
        clips.append(clip)
        return improve(clip)

    monkeypatch.setattr(learner.accelerator, "update", watched)
    learner.update()
    assert learner.adam.learning_rate == pytest.approx(0.0025)
    assert clips == pytest.approx([0.1])
    learner.progress = 1.5
    before = learner.adam.flat.detach().clone()
    play(learner, Script(VECTOR, 4), 6)
    learner.update()
    assert learner.learning_rate == 0.0
    assert torch.equal(learner.adam.flat, before)


def test_constant_schedules_stay() -> None:
    """Without a schedule, progress changes nothing."""
    learner = filled(learning_rate=0.01)
    learner.progress = 0.9
    learner.update()
    assert learner.adam.learning_rate == 0.01


# --- minibatches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recurrent", [None, 4])
@pytest.mark.parametrize(("num_envs", "minibatches"), [(4, 2), (5, 4), (3, 7), (1, 4)])
def test_each_sample_is_used_once_an_epoch(recurrent: int | None, num_envs: int, minibatches: int) -> None:
    """Every step of every env is in exactly one minibatch, together with what belongs to it; in a recurrent one,
    steps of an env stay together and in order."""
    learner = filled(num_envs, recurrent=recurrent, minibatches=minibatches)
    samples = learner.evaluate_rollout()
    samples["number"] = torch.arange(6 * num_envs).reshape(6, num_envs)
    parts = list(learner.rollout.minibatches(samples, learner.minibatches, learner.generator))
    assert len(parts) <= minibatches
    numbers = torch.cat([part["number"].flatten() for part in parts])
    assert sorted(numbers.tolist()) == list(range(6 * num_envs))
    for part in parts:
        for name, kept in (("leaf0", learner.rollout.observations[0]), ("actions", learner.rollout.actions)):
            wanted = kept.flatten(0, 1)[part["number"].flatten()]
            got = part[name].flatten(0, 1) if recurrent else part[name]
            assert torch.equal(got, wanted)
        if recurrent:
            assert (part["number"].diff(dim=0) == num_envs).all()
            assert torch.equal(part["memory"][0], learner.rollout.first_memory[part["number"][0]])


def test_epochs_are_shuffled_anew() -> None:
    """Two passes over a rollout come in different orders."""
    learner = filled()
    samples = learner.evaluate_rollout()
    epochs = (learner.rollout.minibatches(samples, 4, learner.generator) for _ in range(2))
    one, two = (torch.cat([part["log_probs"] for part in epoch]) for epoch in epochs)
    assert not torch.equal(one, two)
    assert torch.equal(one.sort().values, two.sort().values)


# --- memory ---------------------------------------------------------------------------------------------------------


def test_memory_is_reset_where_episodes_start() -> None:
    """After an end, within a rollout or at its last step, that env acts as if it had never seen anything."""
    learner = learner_with(2, recurrent=5, rollout_length=2)
    seen, everyone, quiet = np.ones((2, 3), np.float32), slice(0, 2), np.zeros(2, np.bool_)
    ended = np.array([False, True])
    for _ in range(3):
        learner.explore(seen, everyone)
        learner.record(everyone, StepBatch(seen, np.zeros(2), quiet, ended, (np.array([1]), [seen[1]])))
        assert (learner.memory[1] == 0).all()
        assert (learner.memory[0] != 0).any()
        if learner.ready():
            learner.update()


def test_memory_is_carried_from_rollout_to_rollout() -> None:
    """The first step of a rollout goes on from what the last one left."""
    learner = learner_with(2, recurrent=5, rollout_length=2)
    script = Script(VECTOR, 2, ends=0.0)
    play(learner, script, 2)
    left = learner.memory.clone()
    learner.update()
    play(learner, script, 1)
    assert (left != 0).any()
    assert torch.equal(learner.rollout.first_memory, left)


# --- masks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recurrent", [None, 5])
def test_masked_actions_are_never_tried(recurrent: int | None) -> None:
    """In 60 steps of 8 envs no forbidden action is taken, all allowed ones are, and log-probabilities stay sane."""
    learner, script = learner_with(8, recurrent=recurrent, rollout_length=20), Script(VECTOR, 8, choices=(3,))
    for _ in range(3):
        for _ in range(20):
            mask = script.mask
            assert mask is not None
            (actions,) = play(learner, script, 1)
            assert mask[np.arange(8), actions].all()
        samples = learner.evaluate_rollout()
        assert samples["log_probs"].min() > -20
        learner.update()


def test_a_mask_that_stops_coming_is_not_remembered() -> None:
    """Steps without a mask, after a rollout with masks, allow everything, and are judged so."""
    learner = learner_with()
    play(learner, Script(VECTOR, 4, choices=(3,)), 6)
    learner.update()
    play(learner, Script(VECTOR, 4), 6)
    for part in learner.rollout.minibatches(learner.evaluate_rollout(), learner.minibatches, learner.generator):
        _, (log_ratio, *_) = learner.loss(part, 0.2)
        torch.testing.assert_close(log_ratio, torch.zeros_like(log_ratio), atol=1e-5, rtol=0)


def test_masks_of_continuous_actions_are_refused() -> None:
    """A mask needs choices."""
    learner = PPO(VECTOR, spaces.Box(-1, 1, (2,)), PPOOptions(), 2)
    with pytest.raises(OptionError, match="masks need discrete actions"):
        learner.explore(np.zeros((2, 3), np.float32), slice(0, 2), np.ones((2, 2), np.bool_))


# --- bookkeeping ----------------------------------------------------------------------------------------------------


def test_horizon_and_resizable_follow_the_rollout() -> None:
    """Training is told how far it can go, and when nothing would be lost by changing the number of envs."""
    learner, script = learner_with(), Script(VECTOR, 4)
    assert (learner.steps_until_update, learner.can_resize, learner.ready()) == (6, True, False)
    play(learner, script, 2)
    assert (learner.steps_until_update, learner.can_resize, learner.ready()) == (4, False, False)
    play(learner, script, 4)
    assert (learner.steps_until_update, learner.can_resize, learner.ready()) == (0, False, True)
    learner.update()
    assert (learner.steps_until_update, learner.can_resize, learner.ready()) == (6, True, False)


@pytest.mark.parametrize("options", [{}, {"recurrent": 5}, {"normalise_rewards": True, "normalise_observations": True}])
def test_the_number_of_envs_can_change_between_rollouts(options: dict[str, Any]) -> None:
    """More or fewer envs are learned from; those that stay keep their memory and running returns, weights stay."""
    learner = learner_with(4, **options)
    play(learner, Script(VECTOR, 4, ends=0.0), 6)
    learner.update()
    memory, before = learner.memory.clone(), learner.adam.flat.detach().clone()
    for count in (2, 7):
        learner.resize(count)
        assert torch.equal(learner.memory[:2], memory[:2])
        assert (learner.memory[2:] == 0).all()
        if learner.scale is not None:
            assert (learner.scale.running[:2] != 0).all()
            assert (learner.scale.running[2:] == 0).all()
    assert torch.equal(learner.adam.flat, before)
    play(learner, Script(VECTOR, 7), 6)
    assert learner.ready()
    learner.update()
    assert torch.isfinite(learner.adam.flat).all()
    other = learner_with(7, **options)
    other.load(learner.state())
    assert torch.equal(other.adam.flat, learner.adam.flat)


def test_the_normaliser_sees_each_rollout_once_and_is_saved() -> None:
    """After an update it knows the rollout's observations, not before; it travels with the policy's state."""
    learner = learner_with(normalise_observations=True)
    play(learner, Script(VECTOR, 4), 6)
    norm = learner.policy.encoder.norm
    assert norm is not None and norm.count.item() == 0
    rows = learner.rollout.observations[0].reshape(24, 3).double()
    learner.update()
    assert norm.count.item() == 24
    torch.testing.assert_close(norm.mean, rows.mean(0))
    saved = learner.state()["policy"]
    np.testing.assert_array_equal(saved["encoder.norm.mean"], norm.mean.numpy())
    other = learner_with(normalise_observations=True)
    seen = np.ones((1, 3), np.float32)
    other.agent.act(seen)
    other.load(learner.state())
    assert other.agent.act(seen, deterministic=True) == learner.agent.act(seen, deterministic=True)
    assert torch.equal(other.policy.encoder([torch.ones(1, 3)]), learner.policy.encoder([torch.ones(1, 3)]))


def leaves_of_tree(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        assert all(isinstance(key, str) for key in tree)
        return [leaf for part in tree.values() for leaf in leaves_of_tree(part)]
    return [tree]


@pytest.mark.parametrize("steps", [0, 3])
def test_a_state_holds_what_checkpoints_take_and_is_a_copy(steps: int) -> None:
    """Arrays, plain values and lists of plain values under text keys; training on does not reach them."""
    learner, script = filled(masked=True, recurrent=4, normalise_rewards=True), Script(VECTOR, 4, choices=(3,))
    learner.update()
    play(learner, script, steps)
    state = learner.state()
    arrays = []
    for leaf in leaves_of_tree(state):
        if isinstance(leaf, list):
            assert all(type(part) is int for part in leaf)
        elif isinstance(leaf, np.ndarray):
            arrays.append((leaf, leaf.copy()))
        else:
            assert type(leaf) in (int, float, bool, str)
    play(learner, script, 6 - steps)
    learner.update()
    assert all((kept == copy).all() for kept, copy in arrays)


def test_the_workload_has_no_effect() -> None:
    """Measuring threads with it changes neither weights nor what the next update does."""
    one, two = filled(), filled()
    before = one.adam.flat.detach().clone()
    work = one.workload()
    work()
    work()
    assert torch.equal(one.adam.flat, before)
    assert one.update() == two.update()
    assert torch.equal(one.adam.flat, two.adam.flat)


@pytest.mark.parametrize("options", [{"recurrent": 4}, {"normalise_observations": True}])
def test_the_workload_fits_every_policy(options: dict[str, Any]) -> None:
    """Recurrent and normalising ones as well; it has as many rows as a minibatch."""
    learner = learner_with(5, minibatches=4, **options)
    learner.workload()()
    assert learner.update_rows == 8


def test_the_agent_is_the_policy() -> None:
    """What the learner learned shows in its agent at once."""
    learner = learner_with(learning_rate=0.1)
    rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    before = learner.agent.act(rows, deterministic=True)
    play(learner, Script(VECTOR, 4), 6)
    learner.update()
    assert (learner.agent.act(rows, deterministic=True) != before).any()


def test_spaces_that_cannot_be_served_are_refused() -> None:
    """Before anything is built."""
    with pytest.raises(SpaceError, match="Text"):
        PPO(spaces.Text(3), CHOICE, PPOOptions(), 1)
    with pytest.raises(OptionError, match="PPO cannot act in"):
        PPO(VECTOR, spaces.Text(3), PPOOptions(), 1)
