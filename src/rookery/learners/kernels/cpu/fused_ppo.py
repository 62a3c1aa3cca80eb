"""PPO's accelerators: advantages in one compiled pass, and for perceptrons on a CPU the whole update in compiled code
on several threads, and acting without tensors. Tests compare them with the plain code in `ppo.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.accelerator import Accelerator
from rookery.learners.heads import FORBIDDEN, CategoricalHead, GaussianHead, Head, MultiCategoricalHead
from rookery.learners.kernels.cpu.perceptron import KINDS
from rookery.learners.kernels.cpu.ppo_loss import compute_gae
from rookery.learners.kernels.cpu.ppo_plan import PPOPlan
from rookery.learners.kernels.cpu.ppo_tasks import BLOCK
from rookery.learners.kernels.cpu.slice_team import SliceTeam
from rookery.learners.networks import MLP
from rookery.learners.normalize import CLIP
from rookery.learners.observations import are_tensors, part_of
from rookery.learners.shared_nets import SharedMLP

HEADS = (CategoricalHead, MultiCategoricalHead, GaussianHead)
Minibatch = dict[str, Tensor]


class CompiledAdvantages(Accelerator):
    """For every PPO, on any device."""

    replaces: tuple[str, ...] = ("advantages",)

    def advantages(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> Tensor:
        out = np.empty(rewards.shape, np.float32)
        arrays = (x.cpu().numpy() for x in (rewards, values, next_values, terminated, ended))
        options = self.learner.options
        compute_gae(*arrays, options.gamma, options.trace_lambda, out)
        return torch.from_numpy(out).to(rewards.device)


class FusedPPO(CompiledAdvantages):
    """For an actor and a critic that are perceptrons on a CPU, with nothing before them that learns.

    An update is compiled code from its first minibatch to its last, on as many threads as `use_threads` says, with the
    same numbers for any number of them. Acting is compiled too, and a row's action does not depend on other rows.
    """

    replaces: tuple[str, ...] = (
        "advantages", "values", "gradient_step", "act", "encode", "features", "outputs", "loss", "minibatch_features",
        "policy_loss", "value_loss",
    )  # fmt: skip

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self.head: Head = learner.head
        self._plan: PPOPlan | None = None
        self._packed: PPOPlan | None = None  # the plan that has the weights of this rollout
        self._team: SliceTeam | None = None
        self._threads = 1
        self._lender: FusedPPO | None = None
        self._norm: tuple[np.ndarray, np.ndarray] | None = None  # shift and scale of observations, in this rollout
        self._deviation = np.empty(0, np.float32)  # of Gaussian actions, in this rollout
        self._bounds: tuple[np.ndarray, ...] = ()  # of Gaussian actions, as the env takes them
        if isinstance(self.head, GaussianHead):
            self._bounds = self.head.low.numpy(), self.head.high.numpy()
        self.acts_by_row = learner.policy.encoder.is_vector

    @classmethod
    def supports(cls, learner: Any) -> bool:
        policy, actor = learner.policy, learner.policy.actor
        known = type(actor) is MLP or (type(actor) is SharedMLP and len(actor.columns) <= BLOCK)
        perceptrons = policy.core is None and known and actor.activation_name in KINDS
        return (
            perceptrons
            and not policy.encoder.is_trained
            and learner.device.type == "cpu"
            and type(learner.head) in HEADS
        )

    def invalidate(self) -> None:
        self._packed = None

    # --- collecting ---------------------------------------------------------------------------------------------

    def explore(self, observations: Any, rows: slice, mask: np.ndarray | None) -> np.ndarray | None:
        rollout, leaves, acts = self.learner.rollout, self.learner.leaves, self.acts_by_row
        if not acts or are_tensors(observations) or (mask is not None and isinstance(self.head, GaussianHead)):
            return None  # masks of continuous actions are rejected there
        vectors = np.ascontiguousarray(part_of(observations, leaves[0]), np.float32)
        t, plan = rollout.steps_made(rows), self.acting_plan()
        outputs = plan.outputs(self._features(vectors))
        if mask is not None:
            outputs = self._masked(outputs, t, rows, mask)
        actions, env_actions = self._sample(outputs, rollout.noise_array[t, rows])
        rollout.store_arrays(t, rows, vectors, outputs, actions)
        return env_actions

    def _masked(self, outputs: np.ndarray, t: int, rows: slice, mask: np.ndarray) -> np.ndarray:
        self.learner.agent.check_mask(mask, len(outputs))
        allowed = self.learner.rollout.store_mask(t, rows, mask).numpy()
        return np.where(allowed.reshape(outputs.shape), outputs, np.float32(FORBIDDEN))

    def _features(self, vectors: np.ndarray) -> np.ndarray:
        """As `RunningNorm` computes them. For 8 rows of 17 torch takes 27 us for it, NumPy 7."""
        if self._norm is None:
            return vectors
        shift, scale = self._norm
        features = vectors - shift
        features *= scale
        np.maximum(features, -CLIP, out=features)
        return np.minimum(features, CLIP, out=features)

    def _sample(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Random actions, as the head has them and as the env takes them."""
        head = self.head
        if isinstance(head, CategoricalHead):
            actions = (outputs + noise).argmax(1)
            return actions, actions + head.start
        if isinstance(head, MultiCategoricalHead):
            choices = [part.argmax(1) for part in np.split(outputs + noise, np.cumsum(head.sizes)[:-1], 1)]
            actions = np.stack(choices, 1).reshape(-1, *head.shape)
            return actions, actions + head.starts.numpy()
        low, high = self._bounds
        actions = (outputs + self._deviation * noise).reshape(-1, *head.shape)
        return actions, np.minimum(np.maximum(actions, low), high)

    def can_roll(self, num_envs: int) -> bool:
        return self.acts_by_row and self.learner.policy.encoder.is_identity and isinstance(self.head, CategoricalHead)

    def acting_plan(self) -> PPOPlan:
        plan = self.plan
        if self._packed is not plan:
            self._pack(plan)
        return plan

    def _pack(self, plan: PPOPlan) -> None:
        plan.pack()
        self._packed, norm = plan, self.learner.policy.encoder.norm
        self._norm = None if norm is None else (norm.shift.numpy(), norm.scale.numpy())
        if isinstance(self.head, GaussianHead):
            self._deviation = self.head.log_std.detach().exp().numpy()

    # --- updating -----------------------------------------------------------------------------------------------

    def use_threads(self, threads: int) -> bool:
        if threads != self._threads:
            self._threads, self._team = threads, None
        return True

    def borrow_threads(self, lender: Accelerator) -> None:
        self._lender = lender if isinstance(lender, FusedPPO) else None

    @property
    def team(self) -> SliceTeam:
        if self._lender is not None:
            return self._lender.team
        if self._team is None or not self._team.usable:
            self._team = SliceTeam(self._threads)
        return self._team

    @property
    def plan(self) -> PPOPlan:
        """The compiled update, for where the parameters lie now."""
        if self._plan is None or not self._plan.is_current:
            self._plan = PPOPlan(self.learner)
        self._plan.use_team(self.team)
        return self._plan

    @torch.no_grad()
    def values(self, features: Tensor) -> Tensor:
        return self.acting_plan().values(features)

    @torch.no_grad()
    def update(self, clip: float) -> Tensor | None:
        learner = self.learner
        if learner.execution.shares:  # other processes wait for every gradient
            return None
        plan = self.plan
        rollout, options = learner.rollout, learner.options
        features = learner.policy.encoder(rollout.flat_leaves())
        self._pack(plan)
        samples = learner.evaluate_rollout(plan.values(features).reshape(rollout.length, -1))
        plan.set_samples(features, samples, rollout.actions.flatten(0, 1), rollout.masks)
        plan.set_numbers(clip, options.normalise_advantages)
        metrics, rows, epochs = [], len(features), options.epochs
        at_once = epochs if options.target_kl is None else 1  # nothing is decided between epochs
        for _ in range(0, epochs, at_once):
            orders = torch.stack([torch.randperm(rows, generator=learner.generator) for _ in range(at_once)])
            metrics.append(plan.epochs(orders, -(-rows // min(learner.minibatches, rows))))
            if options.target_kl is not None and metrics[-1][0, 0] > options.target_kl:
                break
        return torch.cat(metrics).mean(0)

    @torch.no_grad()
    def gradient_step(self, minibatch: Minibatch, clip: float, normalise: bool = True) -> Tensor:
        plan = self._with_minibatch(minibatch, clip, normalise)
        metrics = plan.gradient(torch.arange(len(minibatch["advantages"])))
        metrics[-1] = self.learner.adam.step(self.learner.options.max_grad_norm)
        self._packed = None  # its weights are those before the step
        return metrics

    def _with_minibatch(self, minibatch: Minibatch, clip: float, normalise: bool = True) -> PPOPlan:
        plan, features = self.plan, self.learner.minibatch_features(minibatch)
        plan.pack()
        plan.set_samples(features, minibatch, minibatch["actions"], minibatch.get("masks"))
        plan.set_numbers(clip, normalise and self.learner.options.normalise_advantages)
        return plan

    def workload(self) -> Callable[[], None]:
        learner, head, rows = self.learner, self.head, self.learner.update_rows
        leaves = {f"leaf{k}": leaf.blank(rows) for k, leaf in enumerate(learner.leaves)}
        ones = dict.fromkeys(("log_probs", "advantages", "values", "returns"), torch.ones(rows))
        minibatch = {**leaves, **ones, "actions": torch.zeros(rows, *head.shape, dtype=head.dtype)}
        order = torch.arange(rows)

        @torch.no_grad()
        def work() -> None:
            self._with_minibatch(minibatch, 0.2).gradient(order)

        return work
