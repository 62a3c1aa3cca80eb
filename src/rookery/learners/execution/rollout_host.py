"""How an on-policy learner is executed: where its rollout lies, what is due, the loop over epochs.

Of the algorithm it calls `act`, `features`, `outputs`, `values`, `targets` and `gradient_step`, with tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.execution.execution import Execution
from rookery.learners.learner import StepBatch, TensorFinals, Tree, trained_tensors
from rookery.learners.noise import RolloutNoise
from rookery.learners.observations import split, stack
from rookery.learners.rollout import Rollout
from rookery.learners.schedules import scheduled


class RolloutHost(Execution):
    """Fills a rollout with the steps of the present policy, and is ready to update when it is full. Envs may return
    arrays, or tensors on the learner's device."""

    def __init__(self, learner: Any, corrected: bool = False) -> None:
        """`corrected`: rollouts are of somewhat older weights, and come with the log-probabilities of actions that
        these gave, `rollout.log_probs`; targets are corrected for that."""
        super().__init__(learner)
        self._corrected = corrected
        if corrected:
            self.accelerated_by = ("FusedPPO",)
        self.memory = torch.zeros(learner.num_envs, learner.policy.memory_size, device=learner.device)
        self.rollout = self._new_rollout()
        self.noise = self._new_noise()
        # Captured work reads the clip range from a tensor.
        self._clip = None if learner.device.type == "cpu" else torch.zeros((), device=learner.device)

    def _new_rollout(self) -> Rollout:
        learner, memory_size = self.learner, self.learner.policy.memory_size
        length = learner.options.rollout_length
        return Rollout(learner.leaves, learner.head, length, learner.num_envs, memory_size, learner.device)

    def _new_noise(self) -> RolloutNoise:
        learner = self.learner
        colour: Any = getattr(learner.options, "noise", "gaussian")
        return RolloutNoise(learner.head, colour, learner.num_envs * learner.processes)

    # --- collecting: act, and store what was seen, done and rewarded ----------------------------------------------

    def begin_rollout(self) -> int:
        """Sample the noise of a new rollout, if one begins; returns how many steps the present one has."""
        if self.rollout.noise is None:
            noise = self.sample_noise().to(self.learner.device)  # the generator may be a GPU's
            self.rollout.begin(noise, self.memory)
            self.learner.accelerator.invalidate()
        return self.rollout.steps_made(slice(0, None))

    def sample_noise(self) -> Tensor:
        """What the actions of a rollout are sampled with, [steps, envs, noise]."""
        return self.noise.sample(self.rollout.length, self.learner.generator)

    def explore(self, observations: Any, rows: slice, mask: Any = None) -> Any:
        self.begin_rollout()
        actions = self.learner.accelerator.explore(observations, rows, mask)
        return self.explore_plainly(observations, rows, mask) if actions is None else actions

    @torch.no_grad()
    def explore_plainly(self, observations: Any, rows: slice, mask: Any) -> Any:
        """By the algorithm's own `act`."""
        learner, rollout, t = self.learner, self.rollout, self.rollout.steps_made(rows)
        leaves = split(learner.leaves, observations, learner.device)
        if mask is not None:
            learner.agent.check_mask(mask, len(leaves[0]))
            mask = rollout.store_mask(t, rows, mask)
        assert rollout.noise is not None
        memory = self.memory[rows] if learner.policy.memory_size else None
        outputs, actions, features = learner.act(leaves, mask, rollout.noise[t, rows], memory)
        if memory is not None:
            self.memory[rows] = features
        rollout.store(t, rows, leaves, outputs, actions, features)
        if rollout.values is not None:
            rollout.values[t, rows] = learner.values(features)
        return self.to_env(observations, learner.head.to_env(actions))

    def record(self, rows: slice, step: StepBatch) -> None:
        if isinstance(step.rewards, Tensor):
            if not self.learner.accelerator.record(rows, step):
                self.store_tensors(rows, step)
        else:
            finals = self._finals(rows, step)
            self.rollout.store_outcome(rows, step.rewards, step.terminated, step.truncated, finals)
        if self.rollout.steps_made(rows) == self.rollout.length:
            self.rollout.store_last(rows, split(self.learner.leaves, step.observations, self.learner.device))

    def _finals(self, rows: slice, step: StepBatch) -> tuple[np.ndarray, list[Tensor]] | None:
        """The last observations of truncated episodes: a terminated one has no value after its end."""
        if step.finals is None:
            return None
        ended, observations = step.finals
        if self.learner.policy.memory_size:
            self.memory[rows.start + torch.as_tensor(ended)] = 0.0
        cut = np.flatnonzero(~step.terminated[ended])
        if not len(cut):
            return None
        return ended[cut], stack(self.learner.leaves, [observations[k] for k in cut], self.learner.device)

    @torch.no_grad()
    def store_tensors(self, rows: slice, step: StepBatch) -> None:
        """Without a choice of rows, which would wait for the device: final observations of all rows are evaluated."""
        learner, rollout, t = self.learner, self.rollout, self.rollout.steps_made(rows)
        if isinstance(step.finals, TensorFinals):
            if rollout.final_values is None:
                rollout.final_values = rollout.new_array()
            leaves = split(learner.leaves, step.finals.observations, learner.device)
            memory = rollout.features[t, rows] if rollout.features is not None else None
            rollout.final_values[t, rows] = learner.values(learner.features(leaves, memory))
            if memory is not None:
                self.memory[rows] = self.memory[rows].masked_fill(step.finals.ended.unsqueeze(1), 0.0)
        rollout.store_tensors(rows, step.rewards, step.terminated, step.truncated)

    def reset_envs(self, rows: slice) -> None:
        """A rollout is one piece: it starts again for all envs."""
        self.memory[rows] = 0.0
        self.rollout.clear()

    # --- targets ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate_rollout(self, values: Tensor | None = None) -> dict[str, Tensor]:
        """Values, log-probabilities, advantages and returns of the rollout, each [steps, envs]. The critic's `values`
        may be known already."""
        learner, rollout = self.learner, self.rollout
        values = self.acted_values() if values is None else values
        last = self.last_values()
        next_values = torch.cat([values[1:], last.unsqueeze(0)])
        if rollout.finals:  # the value after a truncated episode is the critic's
            steps, envs, leaves = rollout.joined_finals()
            memory = rollout.features[steps, envs] if rollout.features is not None else None
            next_values[steps, envs] = learner.values(learner.features(leaves, memory))
        if rollout.final_values is not None:
            next_values = torch.where(rollout.ended & ~rollout.terminated, rollout.final_values, next_values)
        if learner.scale is not None:
            learner.scale.update(rollout.rewards, rollout.ended)
        rewards = learner.scaled_rewards(rollout.rewards)
        return self.targets(rewards, values, next_values, rollout.terminated, rollout.ended)

    def targets(self, *outcome: Tensor) -> dict[str, Tensor]:
        """What is learned from rewards, values, next values and the ends of episodes."""
        if self._corrected:
            return self.learner.targets(*outcome, self._log_probs_now(), self.rollout.log_probs)
        return self.learner.targets(*outcome, self.acted_log_probs())

    def last_values(self) -> Tensor:
        """Of the observations after the last step, [envs]."""
        return self.learner.values(self.learner.features(self.rollout.last, self.memory))

    @torch.no_grad()
    def acted_log_probs(self) -> Tensor:
        """Log-probabilities with which the actions of the rollout were chosen, [steps, envs]. The weights must be those
        that have acted: a Gaussian's deviation is one of them."""
        rollout = self.rollout
        log_probs = self.learner.head.log_prob(rollout.outputs.flatten(0, 1), rollout.actions.flatten(0, 1))
        return log_probs.reshape(rollout.length, rollout.envs)

    def _log_probs_now(self) -> Tensor:
        """The same under the present policy."""
        rollout, learner = self.rollout, self.learner
        actions, masks = rollout.actions.flatten(0, 1), None if rollout.masks is None else rollout.masks.flatten(0, 1)
        found = []
        for part, leaves in self._in_parts():
            outputs = learner.outputs(learner.features(leaves), None if masks is None else masks[part])
            found.append(learner.head.log_prob(outputs, actions[part]))
        return torch.cat(found).reshape(rollout.length, rollout.envs)

    def acted_values(self) -> Tensor:
        """The critic's values of all observations of the rollout, [steps, envs]."""
        rollout, learner = self.rollout, self.learner
        if rollout.values is not None:
            return rollout.values
        if rollout.features is not None:  # a recurrent policy's were stored: computing them takes as long as acting
            return learner.values(rollout.features)
        parts = [learner.values(learner.features(leaves)) for _, leaves in self._in_parts()]
        return torch.cat(parts).reshape(rollout.length, -1)

    def _in_parts(self) -> Iterator[tuple[slice, list[Tensor]]]:
        """The rows and observations of the rollout, in parts that fit the cache."""
        leaves = self.rollout.flat_leaves()
        size = max(1, len(leaves[0]) // self.minibatches)
        for first in range(0, len(leaves[0]), size):
            part = slice(first, first + size)
            yield part, [leaf[part] for leaf in leaves]

    # --- updating ---------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        return self.rollout.full

    def update(self) -> dict[str, float]:
        metrics = self.learn(self.follow_schedules())
        self.rollout.clear()
        self.learner.updates += 1
        return dict(zip(self.learner.metric_names, metrics.tolist(), strict=True))

    def follow_schedules(self) -> float | Tensor:
        """Set the optimizer's learning rate for the next update, and return its clip range: a number, or on a device
        the tensor that captured work reads."""
        learner, options = self.learner, self.learner.options
        learner.adam.learning_rate = learner.learning_rate
        clip = scheduled(options.clip, options.clip_schedule, learner.progress)
        return clip if self._clip is None else self._clip.fill_(clip)

    def learn(self, clip: float | Tensor) -> Tensor:
        """Learn from the full rollout; returns metrics in the order of `metric_names`, without waiting for a GPU."""
        metrics = self.learner.accelerator.update(clip)
        if metrics is None:
            metrics = self.learn_plainly(clip)
        self.learner.policy.encoder.update_normalisers(self.rollout.flat_leaves())
        return metrics

    def learn_plainly(self, clip: float | Tensor) -> Tensor:
        """By the algorithm's own gradient steps."""
        learner, samples = self.learner, self.evaluate_rollout()
        epochs = EarlyStop(learner.options.target_kl, learner.device)
        for _ in range(learner.options.epochs):
            learner.adam.stop = epochs.stop
            for minibatch in self.rollout.minibatches(samples, self.minibatches, learner.generator):
                latest = learner.gradient_step(minibatch, clip)
            if epochs.ends_with(latest):
                break
        return epochs.metrics()

    @property
    def minibatches(self) -> int:
        """How many minibatches an epoch has."""
        options = self.learner.options
        rows = options.rollout_length * self.learner.num_envs * self.learner.processes
        return options.minibatches if options.batch_size is None else max(1, -(-rows // options.batch_size))

    @property
    def update_rows(self) -> int:
        return -(-self.learner.options.rollout_length * self.learner.num_envs // self.minibatches)

    def workload(self) -> Callable[[], None]:
        policy, leaves = self.learner.policy, self.zero_leaves(self.update_rows)
        memory = torch.zeros(self.update_rows, policy.memory_size, device=self.learner.device)

        def work() -> None:
            features = policy.features(leaves, memory)
            (policy.actor(features).mean() + policy.critic(features).mean()).backward()

        return work

    def stays(self) -> list[Tensor]:
        """What an update changes in place, apart from the rollout: captured work must find it there, and leave it as it
        was when it is tried first."""
        learner, scale = self.learner, self.learner.scale
        return [
            *trained_tensors(learner.parts()),
            *learner.policy.buffers(),
            *([] if scale is None else scale.buffers()),
        ]

    # --- what training needs to know, changes, save and load --------------------------------------------------------

    @property
    def steps_until_update(self) -> int:
        return self.rollout.length - self.rollout.steps_made(slice(0, None))

    @property
    def steps_since_update(self) -> int:
        return self.rollout.recorded

    @property
    def can_resize(self) -> bool:
        return self.rollout.noise is None

    @property
    def bytes_to_fill(self) -> int:
        return 0

    def clear_replay(self) -> None:
        """Nothing to clear: a rollout is discarded after each update."""

    def resize(self, num_envs: int) -> None:
        kept = self.memory[:num_envs]
        self.memory = torch.cat([kept, kept.new_zeros(num_envs - len(kept), kept.shape[1])])
        self.rollout, self.noise = self._new_rollout(), self._new_noise()

    def state(self, replay: bool) -> Tree:
        memory = self.memory.cpu().numpy().copy()
        return {"memory": memory, "rollout": self.rollout.state(), **self.noise.state()}

    def load(self, state: Tree) -> None:
        self.noise.load(state)
        self.memory.copy_(torch.from_numpy(np.array(state["memory"])))
        self.rollout.load(state["rollout"])
        if not self.learner.accelerator.stores_values:  # saved on another device
            self.rollout.values = None


class EarlyStop:
    """Ends the epochs of an update once the policy has moved as far as it may (`target_kl`), and averages their
    metrics, of which the divergence is the first.

    On a GPU no epoch is omitted, as the host would have to wait for the divergence: `stop` becomes 1, and the steps of
    later epochs change nothing.
    """

    def __init__(self, target_kl: float | None, device: torch.device) -> None:
        self._target, self._epochs = target_kl, list[Tensor]()
        self._stops: list[Tensor] | None = None  # before each epoch
        if target_kl is not None and device.type == "cuda":
            self._stops = [torch.zeros((), device=device)]

    @property
    def stop(self) -> Tensor | None:
        """Whether the steps of the next epoch are to change nothing, as a number on a GPU."""
        return None if self._stops is None else self._stops[-1]

    def ends_with(self, metrics: Tensor) -> bool:
        """Whether the epoch with these metrics of its last minibatch is the last one."""
        self._epochs.append(metrics)
        if self._stops is not None:
            assert self._target is not None
            self._stops.append(torch.maximum(self._stops[-1], (metrics[0] > self._target).float()))
            return False
        return self._target is not None and float(metrics[0]) > self._target

    def metrics(self) -> Tensor:
        """Their mean over the epochs that changed something."""
        metrics = torch.stack(self._epochs)
        if self._stops is None:
            return metrics.mean(0)
        made = 1.0 - torch.stack(self._stops[:-1]).unsqueeze(1)
        return (metrics * made).sum(0) / made.sum()
