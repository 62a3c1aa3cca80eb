"""XQC: SAC with critics that are easy to optimise (Palenicek et al., 2025), for continuous actions.

Three changes make the same number of updates worth several times as much: batch normalisation before every activation;
weights whose rows keep the length 1, so that the step size does not wear off; and critics that estimate a
distribution over values, trained by cross-entropy. Rewards are scaled so that values fit the atoms of distributions.

Batch statistics are those of present and next pairs of observations and actions together (CrossQ: Bhatt et al., 2024).
Acting, and the actor's loss, have the critics' running statistics. All actions in this file lie between -1 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from rookery.learners.algorithms.sac import SAC, SACPolicy
from rookery.learners.folding import EPS, folded
from rookery.learners.heads import LOG_STD, squashed_log_prob
from rookery.learners.networks import ACTIVATIONS
from rookery.learners.registry import XQCOptions
from rookery.learners.replay_buffer import ReplayBatch

MOMENTUM = 0.01  # share of an update's batch in the running statistics
Step = tuple[Tensor, Tensor, Tensor]  # of a gradient step: the critics' logits, their targets, and the entropy


class BatchNorm(nn.Module):
    """Shifts and scales each feature by the statistics of a batch, which is in columns, or by running ones."""

    mean: Tensor | None
    variance: Tensor | None

    def __init__(self, features: int, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.gain, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, values: Tensor, by_batch: bool) -> Tensor:
        """Of values [..., rows], with all features in the first axes."""
        columns = values.reshape(1, -1, values.shape[-1])
        normed = F.batch_norm(columns, self.mean, self.variance, self.gain, self.bias, by_batch, self.momentum, EPS)
        return normed.view(values.shape)

    def arrays(self) -> Mapping[str, Any]:
        """For `folded`."""
        return {name: getattr(self, name) for name in ("mean", "variance", "gain", "bias")}


class NormedNet(nn.Module):
    """Perceptrons side by side, with batch norms and weights of length 1. Inside, batches are in columns: what
    statistics are computed from is contiguous."""

    def __init__(
        self, members: int, inputs: int, hidden: Sequence[int], outputs: int, activation: str, momentum: float
    ) -> None:
        super().__init__()
        widths = [inputs, *hidden, outputs]
        self.norms = nn.ModuleList(BatchNorm(n, momentum) for n in (inputs, *(members * width for width in hidden)))
        sizes = zip(widths[1:], widths[:-1], strict=True)
        self.weights = nn.ParameterList([torch.empty(members, *size) for size in sizes])
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))
        self.activation_name, self.activation = activation, ACTIVATIONS[activation]
        for weight in self.weights if not self.bias.is_meta else ():  # of which only the sizes matter
            weight.data = F.normalize(torch.randn(weight.shape), dim=-1)

    def forward(self, features: Tensor, by_batch: bool = False) -> Tensor:
        """Outputs [members, rows, outputs] for features [rows, inputs]."""
        norms = iter(self.norms)
        values = next(norms)(features.T, by_batch).expand(len(self.bias), -1, -1)
        for weight, norm in zip(self.weights, norms, strict=False):
            values = self.activation(norm(torch.bmm(weight, values), by_batch))
        return torch.baddbmm(self.bias, values.mT, self.weights[-1].mT)

    @torch.no_grad()
    def project(self) -> None:
        """Give the rows the length 1 again. In hidden layers, the norms that follow hide the difference; in the last
        one it limits how certain actors and critics can be."""
        for weight in self.weights:
            weight.div_(weight.norm(dim=-1, keepdim=True))

    @property
    def layer_params(self) -> list[tuple[Tensor, Tensor]]:
        """The first member as a plain perceptron, by its running statistics."""
        norms = [norm.arrays() for norm in self.norms]  # type: ignore[operator]
        return folded([weight.detach()[0] for weight in self.weights], norms, self.bias.detach()[0, 0])


class XQCPolicy(SACPolicy):
    """SAC's squashed Gaussian, with norms."""

    title = "XQC"
    net: Any

    def make_net(self, options: XQCOptions) -> NormedNet:
        momentum = 1.0 - (1.0 - MOMENTUM) ** options.policy_delay  # it sees one batch of so many
        return NormedNet(1, self.encoder.width, options.hidden, 2 * self.size, options.activation, momentum)

    def forward(self, features: Tensor, by_batch: bool = False) -> tuple[Tensor, Tensor]:
        mean, log_std = self.net(features, by_batch)[0].chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD)


class XQC(SAC):
    """Learns from replay, by default once for every step of an env."""

    options: XQCOptions
    policy: XQCPolicy

    # --- networks ---------------------------------------------------------------------------------------------------

    def networks(self, observation_space: spaces.Space, action_space: spaces.Space) -> XQCPolicy:
        options = self.options
        policy = XQCPolicy(observation_space, action_space, options).to(self.device)
        self.add_networks(policy, 2, self.add_temperature())
        for norm in self.targets.ensemble.norms:  # they normalise by batches alone
            norm.mean = norm.variance = None
        self.middle = (options.atoms - 1) / 2
        self.gap = options.value_limit / self.middle
        self.places = torch.arange(options.atoms, dtype=torch.float32, device=self.device)
        self.atoms = (self.places - self.middle) * self.gap
        return policy

    def make_ensemble(self, count: int, inputs: int, hidden: Sequence[int]) -> NormedNet:
        return NormedNet(count, inputs, hidden, self.options.atoms, self.options.activation, MOMENTUM)

    @property
    def target_entropy(self) -> float:
        wish = self.options.target_entropy
        return -0.5 * self.policy.size if wish is None else wish

    # --- acting -----------------------------------------------------------------------------------------------------

    def act(self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor) -> Tensor:
        self.policy.refuse_mask(mask)
        return self.sample(self.policy.encoder(leaves), noise, log_probs=False)[0]

    def sample(
        self, features: Tensor, noise: Tensor, log_probs: bool = True, by_batch: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        mean, log_std = self.policy(features, by_batch)
        raw = mean + log_std.exp() * noise
        return raw.tanh(), squashed_log_prob(raw, log_std, noise) if log_probs else None

    # --- targets and losses -----------------------------------------------------------------------------------------

    def values(self, logits: Tensor) -> Tensor:
        """The means of distributions, [members, rows]."""
        return (logits.softmax(-1) * self.atoms).sum(-1)

    @torch.no_grad()
    def td_target(self, batch: ReplayBatch, next_logits: Tensor, log_probs: Tensor) -> Tensor:  # type: ignore[override]
        """The distribution of the critic with the smaller value, moved by rewards, discounts and the entropy's reward,
        and brought back to the atoms: [rows, atoms]."""
        one, other = both = next_logits.softmax(-1)
        values = (both * self.atoms).sum(-1, keepdim=True)
        smaller = torch.where(values[0] < values[1], one, other)
        moved = self.atoms - (self.log_temperature.exp() * log_probs).unsqueeze(-1)
        moved = torch.addcmul(self.scaled_rewards(batch.rewards).unsqueeze(-1), batch.discounts.unsqueeze(-1), moved)
        return self.projected(smaller, (moved / self.gap + self.middle).clamp(0.0, 2.0 * self.middle))

    def projected(self, probabilities: Tensor, places: Tensor) -> Tensor:
        """Probabilities at places between atoms, shared among the two nearest: [rows, atoms]."""
        near = (1.0 - (places.unsqueeze(1) - self.places.unsqueeze(1)).abs()).clamp_(min=0.0)
        return near.mul_(probabilities.unsqueeze(1)).sum(-1)

    def critic_loss(self, logits: Tensor, td_target: Tensor) -> Tensor:
        """The cross-entropy of each critic, summed."""
        return -(td_target * logits.log_softmax(-1)).sum() / len(td_target)

    def actor_loss(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the actor's and the temperature's losses, and the entropy."""
        actions, log_probs = self.sample(features, noise, by_batch=True)
        assert log_probs is not None
        return self.entropy_losses(self.values(self.frozen_critics(features, actions)).amin(0), log_probs)

    # --- the gradient step ------------------------------------------------------------------------------------------

    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None, number: int) -> Step:
        """One step of the critics' optimizer, and of the actor's if it is due."""
        noise, limit, features = self.step_noise(), self.options.max_grad_norm, self.policy.encoder(batch.leaves)
        logits, next_logits, log_probs = self.joint_logits(batch, features, noise[0])
        td_target = self.td_target(batch, next_logits, log_probs)
        self.critic_adam.minimize(self.critic_loss(logits, td_target), limit, norm=False)
        self.critics.ensemble.project()
        if number % self.options.policy_delay == 0:
            self.actor_adam.minimize(self.actor_loss(features.detach(), noise[1])[0], limit, norm=False)
            self.policy.net.project()
        return logits.detach(), td_target, -log_probs.mean()

    def joint_logits(self, batch: ReplayBatch, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The critics' logits of the present, those of the future by the target critics, and the log-probabilities of
        its actions: of one batch, so that both have the same statistics."""
        rows = len(features)
        with torch.no_grad():
            next_features = self.policy.encoder(batch.next_leaves)
            next_actions, log_probs = self.sample(next_features, noise)
            actions = torch.cat([batch.actions, next_actions])
            assert log_probs is not None
        logits = self.critics(torch.cat([features, next_features]), actions, True)
        if self.options.tau == 1.0:  # without target critics
            return logits[:, :rows], logits[:, rows:].detach(), log_probs
        with torch.no_grad():
            seen = self.targets.encoder(batch.leaves), self.targets.encoder(batch.next_leaves)
            next_logits = self.targets(torch.cat(seen), actions, True)[:, rows:]
        return logits[:, :rows], next_logits, log_probs

    def metrics(self, step: Step, weights: Tensor | None) -> dict[str, Tensor]:
        logits, td_target, entropy = step
        loss, temperature = self.critic_loss(logits, td_target), self.log_temperature.detach().exp()
        return {"critic": loss, "value": self.values(logits).mean(), "entropy": entropy, "temperature": temperature}

    def more_vectors(self) -> dict[str, Any]:
        return super().more_vectors() | {"statistics": dict(self.critics.ensemble.named_buffers())}
