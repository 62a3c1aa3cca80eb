"""PPO: proximal policy optimisation.

A rollout of `rollout_length` steps of every env is gathered; then the policy is improved on it for a few epochs, and
the rollout is thrown away. While acting, only the actor runs: what the critic thinks, log-probabilities and advantages
are computed for the whole rollout at once when it is full.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import CheckpointError
from rookery.learners.agent import Policy, make_leaves
from rookery.learners.fast.gae import advantages
from rookery.learners.fast.perceptron import PackedMLP
from rookery.learners.fast.ppo_loss import Terms, value_grads
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.heads import CategoricalHead, Head, head_for
from rookery.learners.learner import (
    Finals,
    Learner,
    StepBatch,
    Tree,
    generator_state,
    load_generator,
    load_module,
    module_state,
    scheduled,
    seeded,
)
from rookery.learners.networks import MLP, Encoder
from rookery.learners.normalize import ReturnScale
from rookery.learners.observations import split, stack
from rookery.learners.options import PPOOptions
from rookery.learners.rollout import Rollout

FEW_ROWS = 64  # up to which a single compiled pass acts quicker than a few products
METRICS = ("kl", "policy", "value", "entropy", "gradient")


class ActorCritic(Policy):
    """Two perceptrons over a shared encoder, with a recurrent core between them if asked for."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: PPOOptions) -> None:
        super().__init__()
        self.leaves = make_leaves(observation_space)
        self.encoder = Encoder(self.leaves, options.normalise_observations)
        self.head = head_for(action_space, options.log_std)
        self.memory_size = options.recurrent or 0
        self.core = nn.GRUCell(self.encoder.width, self.memory_size) if self.memory_size else None
        width = self.memory_size or self.encoder.width
        self.actor = MLP(width, options.hidden, self.head.outputs, options.activation, gain=0.01)
        self.critic = MLP(width, options.hidden, 1, options.activation)

    def features(self, leaves: list[Tensor], memory: Tensor | None = None) -> Tensor:
        """What actor and critic see; of a recurrent policy, also what it will remember."""
        encoded = self.encoder.forward(leaves)  # not called as a module: that would take longer than it does
        return encoded if self.core is None else self.core(encoded, memory)

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        features = self.features(leaves, memory)
        outputs = self.actor(features)
        if mask is not None:
            outputs = self.head.apply_mask(outputs, mask)
        actions = self.head.mode(outputs) if noise is None else self.head.sample(outputs, noise)
        return self.head.to_env(actions), features if self.core else None

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return self.head.sample_noise(rows, generator=generator)


class PPO(Learner):
    """Learns from what the present policy does, and from nothing older."""

    on_policy = True
    options: PPOOptions
    policy: ActorCritic

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: PPOOptions,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        with seeded(seed):
            policy = ActorCritic(observation_space, action_space, options).to(device)
        super().__init__(policy, observation_space, action_space, options, num_envs, seed, torch.device(device))
        self.head = policy.head
        self.adam = FlatAdam(policy.parameters(), options.learning_rate, eps=1e-5)
        self.scale = ReturnScale(num_envs, options.gamma).to(device) if options.normalise_rewards else None
        self._fused = self._can_be_written_out()
        if self._fused:
            self._actor, self._critic = policy.actor.fused(), policy.critic.fused()
        plain = policy.encoder.is_identity and isinstance(self.head, CategoricalHead)
        self.quick = self._fused and plain  # whether acting needs no tensors
        self._packed: PackedMLP | None = None  # the actor of this rollout
        self.memory = torch.zeros(num_envs, policy.memory_size, device=device)
        self.rollout = self._new_rollout()

    def _can_be_written_out(self) -> bool:
        """Whether both nets are perceptrons on a CPU, with nothing before them that learns."""
        policy = self.policy
        plain = policy.core is None and not policy.encoder.images and self.device.type == "cpu"
        return plain and policy.actor.compiled_kind is not None and type(self.head).grads is not Head.grads

    def _new_rollout(self) -> Rollout:
        return Rollout(
            self.leaves, self.head, self.options.rollout_length, self.num_envs, self.policy.memory_size, self.device
        )

    # --- gathering ----------------------------------------------------------------------------------------------

    def explore(self, observations: Any, rows: slice, mask: np.ndarray | None = None) -> np.ndarray:
        self.begin_rollout()
        if self.quick and mask is None:
            return self._explore_quickly(observations, rows)
        return self._explore(observations, rows, mask)

    def begin_rollout(self) -> int:
        """Draw the noise of a new rollout, if one is to begin; returns how many steps the present one has."""
        if self.rollout.noise is None:
            noise = self.head.sample_noise(self.rollout.length, self.num_envs, generator=self.generator)
            self.rollout.begin(noise, self.memory)
            self._packed = None
        return self.rollout.steps_made(slice(0, None))

    def net_arrays(self) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
        """The actor of this rollout and its noise, for a compiled loop."""
        packed = self._packed_actor()
        return packed.sizes, packed.packed, packed.kind, self.rollout.noise_array

    def _packed_actor(self) -> PackedMLP:
        if self._packed is None:
            self._packed = self.policy.actor.packed()
        return self._packed

    def _explore_quickly(self, observations: np.ndarray, rows: slice) -> np.ndarray:
        """The same for plain vectors and one choice on a CPU, with hardly a tensor: 18 us instead of 45 for 8 envs."""
        rollout, features = self.rollout, np.ascontiguousarray(observations, np.float32)
        t, outputs = rollout.steps_made(rows), self._act_fused(features)
        actions = (outputs + rollout.noise_array[t, rows]).argmax(1)
        rollout.store_arrays(t, rows, features, outputs, actions)
        return actions + self.head.start  # type: ignore[operator]

    @torch.no_grad()
    def _act_fused(self, features: np.ndarray) -> np.ndarray:
        if len(features) > FEW_ROWS:
            return self._actor.forward(torch.from_numpy(features)).numpy()
        return self._packed_actor()(features)

    @torch.no_grad()
    def _explore(self, observations: Any, rows: slice, mask: np.ndarray | None) -> np.ndarray:
        rollout = self.rollout
        t, noise = rollout.steps_made(rows), rollout.noise
        assert noise is not None
        leaves = split(self.leaves, observations, self.device)
        features = self.policy.features(leaves, self.memory[rows] if self.policy.memory_size else None)
        outputs = self.policy.actor(features)
        if mask is not None:
            self.agent.check_mask(mask, len(outputs))
            allowed = rollout.store_mask(t, rows, mask)
            outputs = self.head.apply_mask(outputs, allowed)
        actions = self.head.sample(outputs, noise[t, rows])
        if self.policy.core is not None:
            self.memory[rows] = features
        rollout.store(t, rows, leaves, outputs, actions, features)
        return self.head.to_env(actions).cpu().numpy()

    def record(self, rows: slice, answer: StepBatch) -> None:
        observations, rewards, terminated, truncated, finals, _ = answer
        self.rollout.store_outcome(rows, rewards, terminated, truncated, self._truncated(finals, terminated))
        if self.policy.core is not None and finals:
            self.memory[rows.start + torch.as_tensor(finals[0])] = 0.0
        if self.rollout.steps_made(rows) == self.rollout.length:
            self.rollout.store_last(rows, split(self.leaves, observations, self.device))

    def _truncated(self, finals: Finals | None, terminated: np.ndarray) -> tuple[np.ndarray, list[Tensor]] | None:
        """Those of the episodes' last observations that the critic will be asked about: nothing comes after a
        terminated episode."""
        if finals is None:
            return None
        cut = ~terminated[finals[0]]
        if not cut.any():
            return None
        return finals[0][cut], stack(self.leaves, [finals[1][k] for k in np.flatnonzero(cut)], self.device)

    def reset_envs(self, rows: slice) -> None:
        """A rollout is one piece: it begins anew for all envs."""
        self.memory[rows] = 0.0
        self.rollout.clear()

    def ready(self) -> bool:
        return self.rollout.full

    @property
    def steps_until_update(self) -> int:
        return self.rollout.length - self.rollout.steps_made(slice(0, None))

    @property
    def steps_since_update(self) -> int:
        return self.rollout.recorded

    @property
    def can_resize(self) -> bool:
        return self.rollout.noise is None

    # --- learning -----------------------------------------------------------------------------------------------

    def update(self) -> dict[str, float]:
        self.adam.learning_rate = self.learning_rate
        samples = self._judge_rollout()
        clip = scheduled(self.options.clip, self.options.clip_schedule, self.progress)
        improve = self._train_step_fused if self._fused else self._train_step
        metrics: list[Tensor] = []  # of the last minibatch of each epoch
        for _ in range(self.options.epochs):
            for part in self._minibatches(samples):
                latest = improve(part, clip)
            metrics.append(latest)
            # One look at the divergence per epoch, since looking waits for the device.
            if self.options.target_kl is not None and float(latest[0]) > self.options.target_kl:
                break
        self.policy.encoder.update_normalisers([leaf.flatten(0, 1) for leaf in self.rollout.observations])
        self.rollout.clear()
        self.updates += 1
        return dict(zip(METRICS, torch.stack(metrics).mean(0).tolist(), strict=True))

    @torch.no_grad()
    def _judge_rollout(self) -> dict[str, Tensor]:
        """Values, log-probabilities and advantages of the whole rollout, in a few large operations."""
        rollout, options = self.rollout, self.options
        values = self._values(rollout.flat_leaves(), rollout.features)
        after_last = self.policy.critic(self.policy.features(rollout.last, self.memory)).reshape(1, -1)
        next_values = torch.cat([values[1:], after_last])
        for t, places, leaves in rollout.finals:
            memory = rollout.features[t, places] if rollout.features is not None else None
            next_values[t, places] = self.policy.critic(self.policy.features(leaves, memory)).squeeze(-1)
        rewards = rollout.rewards
        if self.scale is not None:
            self.scale.update(rewards, rollout.ended)
            rewards = self.scale.scale(rewards)
        advantage = np.empty((rollout.length, self.num_envs), np.float32)
        arrays = (x.cpu().numpy() for x in (rewards, values, next_values, rollout.terminated, rollout.ended))
        advantages(*arrays, options.gamma, options.gae_lambda, advantage)
        outputs = rollout.outputs.flatten(0, 1)
        log_probs = self.head.log_prob(outputs, rollout.actions.flatten(0, 1))
        advantage = torch.from_numpy(advantage).to(self.device)
        return {
            "log_probs": log_probs.reshape(values.shape),
            "advantages": advantage,
            "values": values,
            "returns": advantage + values,
        }

    def _values(self, leaves: list[Tensor], features: Tensor | None) -> Tensor:
        """What the critic thinks of each observation of the rollout, [steps, envs]."""
        rollout = self.rollout
        if features is not None:  # a recurrent policy's were kept, since computing them again takes as long as acting
            return self.policy.critic(features).reshape(rollout.length, -1)
        size = max(1, len(leaves[0]) // self.minibatches)
        parts = zip(*(leaf.split(size) for leaf in leaves), strict=True)
        judged = [self._critic_of(self.policy.features(list(part))) for part in parts]
        return torch.cat(judged).reshape(rollout.length, -1)

    def _critic_of(self, features: Tensor) -> Tensor:
        return self._critic.forward(features).clone() if self._fused else self.policy.critic(features)

    @property
    def minibatches(self) -> int:
        """Into how many parts an epoch divides a rollout."""
        rows, size = self.options.rollout_length * self.num_envs, self.options.batch_size
        return self.options.minibatches if size is None else max(1, -(-rows // size))

    def _minibatches(self, samples: dict[str, Tensor]) -> Any:
        """The rollout once, shuffled, in parts; whole trajectories of some envs if the policy is recurrent."""
        rollout, recurrent = self.rollout, self.policy.core is not None
        tensors = {**samples, "actions": rollout.actions, "starts": rollout.starts}
        if rollout.masks is not None:
            tensors["masks"] = rollout.masks
        tensors |= {f"leaf{k}": leaf for k, leaf in enumerate(rollout.observations)}
        if recurrent:
            count, axis = self.num_envs, 1
            tensors["memory"] = rollout.first_memory.unsqueeze(0)
        else:
            count, axis = rollout.length * self.num_envs, 0
            tensors = {name: value.flatten(0, 1) for name, value in tensors.items() if name != "starts"}
        order = torch.randperm(count, generator=self.generator, device=self.device)
        size = -(-count // min(self.minibatches, count))
        # Shuffling everything once is quicker than gathering each part of it.
        columns = [value.index_select(axis, order).split(size, axis) for value in tensors.values()]
        for parts in zip(*columns, strict=True):
            yield dict(zip(tensors, parts, strict=True))

    def _features(self, part: dict[str, Tensor]) -> Tensor:
        leaves = [part[f"leaf{k}"] for k in range(len(self.leaves))]
        if self.policy.core is None:
            return self.policy.encoder(leaves)
        encoded = self.policy.encoder([leaf.flatten(0, 1) for leaf in leaves])
        encoded = encoded.reshape(*part["starts"].shape, -1)
        memory, remembered = part["memory"][0], []
        for t, starts in enumerate(part["starts"]):
            memory = self.policy.core(encoded[t], memory.masked_fill(starts.unsqueeze(1), 0.0))
            remembered.append(memory)
        return torch.cat(remembered)

    def _train_step(self, part: dict[str, Tensor], clip: float) -> Tensor:
        """One step down the loss of a minibatch; returns what is shown of it, in the order of METRICS."""
        loss, (log_ratio, policy_loss, value_loss, entropy) = self._loss(part, clip)
        length = self.adam.minimize(loss, self.options.max_grad_norm)
        with torch.no_grad():
            return torch.stack([(log_ratio.exp() - 1 - log_ratio).mean(), policy_loss, value_loss, entropy, length])

    def _loss(self, part: dict[str, Tensor], clip: float) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """What is to become smaller, and what it is made of: the log-ratios, both losses and the entropy."""
        features = self._features(part)
        if self.policy.core is not None:
            part = {name: value.flatten(0, 1) for name, value in part.items() if name != "memory"}
        outputs = self.policy.actor(features)
        if "masks" in part:
            outputs = self.head.apply_mask(outputs, part["masks"])
        log_ratio = self.head.log_prob(outputs, part["actions"]) - part["log_probs"]
        policy_loss = self._policy_loss(log_ratio.exp(), part["advantages"], clip)
        value_loss = self._value_loss(self.policy.critic(features).squeeze(-1), part)
        entropy = self.head.entropy(outputs)
        loss = policy_loss + self.options.value_weight * value_loss - self.options.entropy * entropy
        return loss, (log_ratio, policy_loss, value_loss, entropy)

    def _train_step_fused(self, part: dict[str, Tensor], clip: float) -> Tensor:
        """The same step for perceptrons on a CPU, with the gradient written out: three times as fast at 256 rows."""
        with torch.no_grad():
            features = self._features(part)
        value_loss = self._backward_critic(features, part)
        kl, policy_loss, entropy = self._backward_actor(features, part, clip)
        length = self.adam.step(self.options.max_grad_norm)
        return torch.tensor([kl, policy_loss, value_loss, entropy, length])

    @torch.no_grad()
    def _backward_actor(self, features: Tensor, part: dict[str, Tensor], clip: float) -> Terms:
        outputs = self._actor.forward(features)
        if "masks" in part:
            outputs = self.head.apply_mask(outputs, part["masks"])
        loss = self.options.normalise_advantages, clip, self.options.entropy
        grads, terms = self.head.grads(outputs, part, loss)  # type: ignore[misc]
        self._actor.backward(grads)
        return terms

    @torch.no_grad()
    def _backward_critic(self, features: Tensor, part: dict[str, Tensor]) -> float:
        values = self._critic.forward(features)
        grads = torch.empty_like(values)
        arrays = (x.numpy() for x in (values[:, 0], part["values"], part["returns"]))
        limit = math.inf if self.options.clip_values is None else self.options.clip_values
        loss = value_grads(*arrays, limit, self.options.value_weight, grads.numpy()[:, 0])
        self._critic.backward(grads)
        return loss

    def _policy_loss(self, ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
        if self.options.normalise_advantages and len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        return -torch.min(advantage * ratio, advantage * ratio.clamp(1 - clip, 1 + clip)).mean()

    def _value_loss(self, values: Tensor, part: dict[str, Tensor]) -> Tensor:
        error = (values - part["returns"]).square()
        if self.options.clip_values is not None:
            limit = self.options.clip_values
            near = part["values"] + (values - part["values"]).clamp(-limit, limit)
            error = torch.max(error, (near - part["returns"]).square())
        return 0.5 * error.mean()

    @property
    def update_rows(self) -> int:
        return -(-self.options.rollout_length * self.num_envs // self.minibatches)

    def workload(self) -> Callable[[], None]:
        rows = self.update_rows
        leaves = [torch.zeros(rows, *leaf.shape, dtype=leaf.dtype, device=self.device) for leaf in self.leaves]
        memory = torch.zeros(rows, self.policy.memory_size, device=self.device)

        def work() -> None:
            features = self.policy.features(leaves, memory)
            (self.policy.actor(features).mean() + self.policy.critic(features).mean()).backward()

        def work_fused() -> None:
            features, one = self.policy.features(leaves), torch.ones(rows)
            part = {
                "actions": torch.zeros(rows, *self.head.shape, dtype=self.head.dtype),
                **dict.fromkeys(("log_probs", "advantages", "values", "returns"), one),
            }
            self._backward_critic(features, part)
            self._backward_actor(features, part, 0.2)

        return work_fused if self._fused else work

    # --- changing course ----------------------------------------------------------------------------------------

    def clear_replay(self) -> None:
        """There is none: what was gathered is forgotten after each update anyway."""

    def _options_changed(self) -> None:
        if self.scale is not None:
            self.scale.gamma = self.options.gamma

    # --- going on later -----------------------------------------------------------------------------------------

    def resize(self, num_envs: int) -> None:
        kept = self.memory[:num_envs]
        self.memory = torch.cat([kept, kept.new_zeros(num_envs - len(kept), kept.shape[1])])
        self.num_envs = num_envs
        if self.scale is not None:
            self.scale.resize(num_envs)
        self.rollout = self._new_rollout()

    def state(self, replay: bool = True) -> Tree:
        return {
            "policy": module_state(self.policy),
            "adam": self.adam.state(),
            "scale": module_state(self.scale) if self.scale is not None else {},
            "memory": self.memory.cpu().numpy().copy(),
            "generator": generator_state(self.generator),
            "rollout": self.rollout.state(),
            "updates": self.updates,
        }

    def load(self, state: Tree) -> None:
        load_module(self.policy, state["policy"])
        self._packed = None
        self.adam.load(state["adam"])
        if self.scale is not None:
            load_module(self.scale, state["scale"])
        self.memory.copy_(torch.from_numpy(np.array(state["memory"])))
        load_generator(self.generator, state["generator"])
        self.rollout.load(state["rollout"])
        noise, shape = self.rollout.noise, (self.rollout.length, self.num_envs, self.head.noise)
        if noise is not None and (noise.shape != shape or noise.dtype != torch.float32):
            raise CheckpointError(f"noise of shape {tuple(noise.shape)} does not fit a rollout that needs {shape}")
        self.updates = state["updates"]
