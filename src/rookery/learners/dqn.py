"""DQN: deep Q-learning for discrete actions, with four improvements that can each be switched off.

A net guesses what each action will bring. Dueling: it guesses the worth of the situation and of each action apart.
Double: the net chooses the next action and a slower copy evaluates it. n-step: several rewards are summed.
Prioritised: what surprised is replayed more often, and counts less each time, so that nothing is distorted in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import CheckpointError, OptionError
from rookery.learners.agent import make_leaves
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.heads import FORBIDDEN
from rookery.learners.learner import StepBatch, Tree, seeded
from rookery.learners.networks import Encoder, with_params_from
from rookery.learners.observations import mask_of, split
from rookery.learners.offpolicy import Metrics, OffPolicy, OffPolicyPolicy
from rookery.learners.options import DQNOptions
from rookery.learners.qnet import QNet
from rookery.learners.replay import ReplayBatch
from rookery.learners.sumtree import SumTree

LOOK_EVERY = 8  # updates between two that metrics are taken from
SPREAD = 7.0  # with epsilon_per_env, the last env's share of random actions is the first one's to the power of 1 + this


class QPolicy(OffPolicyPolicy):
    """What each action will bring; the policy takes the best."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: DQNOptions) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete):
            raise OptionError(
                f"DQN cannot act in {action_space}; it takes Discrete (SAC takes a Box, PPO all of these)"
            )
        self.leaves = make_leaves(observation_space)
        self.actions, self.start = int(action_space.n), int(action_space.start)
        self.epsilon = options.epsilon_end
        self.encoder = Encoder(self.leaves, options.normalise_observations)
        self.net = QNet(self.encoder.width, options.hidden, self.actions, options.activation, options.dueling)

    def forward(self, leaves: list[Tensor]) -> Tensor:
        """The worth of all actions, [batch, actions]."""
        return self.net.forward(self.encoder.forward(leaves))

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        return choose(self(leaves), mask, noise, self.epsilon) + self.start, None

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.rand(rows, 1 + self.actions, generator=generator, device=generator.device)


def choose(values: Tensor, mask: Tensor | None, noise: Tensor | None, epsilon: float | Tensor) -> Tensor:
    """The best action, or where the first column of `noise` is below `epsilon` the one that its others favour."""
    if noise is not None:
        values = torch.where(noise[:, :1] < epsilon, noise[:, 1:], values)
    if mask is not None:
        values = values.masked_fill(~mask, FORBIDDEN)
    return values.argmax(-1)


class DQN(OffPolicy):
    """Learns from replay, by default once for every four steps of an env."""

    options: DQNOptions
    policy: QPolicy

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: DQNOptions,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        with seeded(seed):
            policy = QPolicy(observation_space, action_space, options).to(device)
        example = torch.zeros((), dtype=torch.int64)
        super().__init__(
            policy, observation_space, action_space, options, example, num_envs, seed, torch.device(device)
        )
        self.adam = FlatAdam(policy.parameters(), options.learning_rate)
        self.adams = [self.adam]
        self.target_weights = self.adam.flat.data.clone()
        self.target = with_params_from(policy, self.target_weights)
        self.target.encoder.share_normalisers(policy.encoder)
        self.tree = SumTree(options.buffer_size) if options.prioritised else None
        self.has_images = len(policy.encoder.images) > 0  # only then has the encoder anything to learn
        self._masked = False
        self._epsilon_factor = 1.0  # what `epsilon_decay` has left of the first share of random actions
        self._spread = self._spread_out()

    # --- gathering ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def explore(self, observations: Any, rows: slice, mask: np.ndarray | None = None) -> np.ndarray:
        leaves = split(self.leaves, observations, self.device)
        noise = self.policy.sample_noise(leaves[0].shape[0], self.generator)
        if mask is not None:
            self.agent.check_mask(mask, len(noise))
            self._masked = True
            mask = torch.from_numpy(np.asarray(mask, np.bool_)).to(self.device)
        if self.steps < self.options.start_steps:
            actions = choose(noise[:, 1:], mask, None, 0.0)
        else:
            actions = choose(self.policy.forward(leaves), mask, noise, self.epsilon(rows))
        self.n_step_buffer.store(rows, leaves, actions)
        return actions.cpu().numpy() + self.policy.start

    def epsilon(self, rows: slice) -> float | Tensor:
        """The share of random actions at this point of the run, of each env in `rows` if they differ."""
        options = self.options
        if options.epsilon_decay is not None:
            share = max(options.epsilon_end, options.epsilon_start * self._epsilon_factor)
        else:
            done = min(1.0, self.steps / options.epsilon_steps)
            share = options.epsilon_start + done * (options.epsilon_end - options.epsilon_start)
        return share if self._spread is None else (share**self._spread)[rows]

    def _spread_out(self) -> Tensor | None:
        if not self.options.epsilon_per_env or self.num_envs == 1:
            return None
        return 1.0 + SPREAD * torch.linspace(0.0, 1.0, self.num_envs, device=self.device).unsqueeze(-1)

    def record(self, rows: slice, answer: StepBatch) -> None:
        super().record(rows, answer)
        if self.options.epsilon_decay is not None:
            self._epsilon_factor *= self.options.epsilon_decay ** int(
                np.count_nonzero(answer.terminated | answer.truncated)
            )

    def _next_masks(self, answer: StepBatch) -> Tensor | None:
        """What may be done next. After the last step of an episode that is unknown, and all is allowed, unless the
        last observation itself tells."""
        if not self._masked:
            return None
        rows, mask = len(answer.rewards), answer.mask
        if mask is not None:
            self.agent.check_mask(mask, rows)
        self.replay.store_masks(self.policy.actions)
        allowed = np.ones((rows, self.policy.actions), np.bool_) if mask is None else np.array(mask, np.bool_)
        for place, last in zip(*answer.finals, strict=True) if answer.finals else ():
            told = mask_of(last)
            allowed[place] = True if told is None else told
        return torch.from_numpy(allowed).to(self.device)

    def _added(self, slots: np.ndarray) -> None:
        """New transitions count as the most surprising ones, so that each is looked at soon."""
        if self.tree is not None:
            self.tree.set(slots, np.full(len(slots), self.tree.largest or 1.0))

    # --- learning -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _train_step(self, metrics: Metrics) -> None:
        options, net, size = self.options, self.policy.net, self.options.batch_size
        places, weights = self._draw()
        batch = self.replay.batch(places)
        with torch.set_grad_enabled(self.has_images):
            features = self.policy.encoder(batch.leaves)
        following = self.policy.encoder(batch.next_leaves)
        # Both in one pass, of which only the first half will be learned from.
        values, passes = net.forward_with_passes(torch.cat([features, following]) if options.double else features, size)
        wanted = self.td_target(batch, following, values[size:] if options.double else None)
        actions = batch.actions.unsqueeze(1)
        error = values[:size].gather(1, actions).squeeze(1) - wanted
        grad = error.clamp(-1.0, 1.0).div_(size) if options.loss == "huber" else error / size
        if weights is not None:
            grad.mul_(weights)
        grads = torch.zeros_like(values[:size]).scatter_(1, actions, grad.unsqueeze(1))
        if self.has_images:
            self.adam.gradient.zero_()
        pulled = net.backward(passes, grads, features=self.has_images)
        if self.has_images:
            features.backward(pulled)
        length = self.adam.step(options.max_grad_norm)
        if self.tree is not None:
            surprise = np.abs(error.cpu().numpy()) + np.float32(options.priority_floor)
            self.tree.set(places.cpu().numpy(), surprise**options.priority_exponent)
        if (self.updates + 1) % options.target_every == 0:
            self.target_weights.lerp_(self.adam.flat.data, options.tau)
        if self.updates % LOOK_EVERY == 0:
            metrics["value"].append(wanted.mean())
            metrics["error"].append(error.abs().mean())
            metrics["gradient"].append(length)

    def _draw(self) -> tuple[Tensor, Tensor | None]:
        """Which transitions to learn from, and how much each counts if they do not count the same."""
        size = self.options.batch_size
        if self.tree is None:
            return self.replay.sample_indices(size, self.generator), None
        uniform = torch.rand(size, dtype=torch.float64, generator=self.generator, device=self.device).cpu().numpy()
        places = self.tree.sample(uniform)
        start = self.options.importance_exponent
        exponent = start + (1.0 - start) * min(1.0, self.steps / self.options.importance_steps)
        weights = torch.from_numpy(self.tree.weights(places, exponent)).to(self.device)
        return torch.from_numpy(places).to(self.device), weights

    def td_target(self, batch: ReplayBatch, following: Tensor, proposed: Tensor | None) -> Tensor:
        """What the net should have said: rewards, then what the target net says of the next action. `proposed` is what
        the net itself says of it, if it is to choose."""
        if self.has_images:  # the target sees pictures with slow eyes of its own
            following = self.target.encoder(batch.next_leaves)
        judged = self.target.net(following)
        best = choose(judged if proposed is None else proposed, batch.next_masks, None, 0.0).unsqueeze(1)
        return torch.addcmul(self._rewards(batch), batch.discounts, judged.gather(1, best).squeeze(1))

    def workload(self) -> Callable[[], None]:
        rows = self.options.batch_size
        leaves = [torch.zeros(rows, *leaf.shape, dtype=leaf.dtype, device=self.device) for leaf in self.leaves]

        def work() -> None:
            self.policy(leaves).mean().backward()

        return work

    # --- changing course ----------------------------------------------------------------------------------------

    def clear_replay(self) -> None:
        super().clear_replay()
        if self.tree is not None:
            self.tree.load(np.zeros(0))

    def _options_changed(self) -> None:
        super()._options_changed()
        self.policy.epsilon = self.options.epsilon_end
        self._spread = self._spread_out()

    # --- going on later -----------------------------------------------------------------------------------------

    def resize(self, num_envs: int) -> None:
        super().resize(num_envs)
        self._spread = self._spread_out()

    def state(self, replay: bool = True) -> Tree:
        kept = {"priorities": self.tree.priorities(slice(0, self.replay.size))} if replay and self.tree else {}
        return (
            super().state(replay)
            | kept
            | {
                "target": self.target_weights.cpu().numpy().copy(),
                "adam": self.adam.state(),
                "masked": self._masked,
                "fallen": self._epsilon_factor,
            }
        )

    def load(self, state: Tree) -> None:
        for part in (state["pending"]["actions"], state.get("replay", {"arrays": {}})["arrays"].get("actions", [])):
            if np.size(part) and not (np.min(part) >= 0 and np.max(part) < self.policy.actions):
                raise CheckpointError(f"actions that were saved are none of the {self.policy.actions} that there are")
        super().load(state)
        self.target_weights.copy_(torch.from_numpy(np.array(state["target"])))
        self.adam.load(state["adam"])
        self._masked, self._epsilon_factor = state["masked"], state.get("fallen", 1.0)
        if self.tree is not None:
            self.tree.load(state.get("priorities", np.zeros(0)))
