"""The learners by name: the options and the spec of each. Their code is loaded when it is used.

A learner is one file and one entry here. Installed packages add theirs by entry points, see `LearnerSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Self

from pydantic import model_validator

from rookery.errors import OptionError
from rookery.learners.learner_spec import (
    ALWAYS_ADJUSTABLE,
    COLOUR_HELP,
    REPLAY_ADJUSTABLE,
    Activation,
    ActorLayout,
    AssetLayout,
    Colour,
    LearnerSpec,
    Options,
    PrioritisedOptions,
    ReplayOptions,
    Sizes,
    installed_specs,
    key,
)
from rookery.learners.schedules import ScheduleText


@cache
def specs() -> dict[str, LearnerSpec]:
    """All learners by name: rookery's own, then those of installed packages."""
    own = {spec.name: spec for spec in (PPO_SPEC, SAC_SPEC, DQN_SPEC, TD3_SPEC, PQN_SPEC, XQC_SPEC)}
    return own | installed_specs(own)


@cache
def option_classes() -> dict[str, type[Options]]:
    """The options of each learner, by its name."""
    return {name: spec.options for name, spec in specs().items()}


def make_learner(name: str, *args: Any, **kwargs: Any) -> Any:
    """A learner: `make_learner("ppo", observation_space, action_space, options, num_envs, seed, device)`."""
    return specs()[name].load_learner()(*args, **kwargs)


def make_policy(name: str, observation_space: Any, action_space: Any, options: Options) -> Any:
    """The policy alone, with initial weights, to be filled from a checkpoint."""
    return specs()[name].load_policy()(observation_space, action_space, options)


# --- action spaces ----------------------------------------------------------------------------------------------------


def is_discrete(space: Any) -> bool:
    """A single discrete action."""
    from gymnasium import spaces

    return isinstance(space, spaces.Discrete)


def is_choice(space: Any) -> bool:
    """One discrete action, or several at once."""
    from gymnasium import spaces

    return isinstance(space, (spaces.Discrete, spaces.MultiDiscrete))


def is_continuous(space: Any) -> bool:
    """A Box of floats."""
    from gymnasium import spaces

    return isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f"


def is_bounded(space: Any) -> bool:
    """A Box of floats with finite bounds, or a Dict or Tuple of these."""
    return _all_parts(space, lambda part: is_continuous(part) and bool(part.is_bounded()))


def is_any(space: Any) -> bool:
    """Discrete actions of any kind, a Box of floats, or a Dict or Tuple of these."""
    from gymnasium import spaces

    discrete = spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary
    return _all_parts(space, lambda part: isinstance(part, discrete) or is_continuous(part))


def _all_parts(space: Any, fits: Callable[[Any], bool]) -> bool:
    """Whether a space fits or, if it is a Dict or Tuple, all parts of it do."""
    from gymnasium import spaces

    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        return fits(space)
    parts = list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
    return bool(parts) and all(_all_parts(part, fits) for part in parts)


# --- PPO --------------------------------------------------------------------------------------------------------------


class RolloutOptions(Options):
    """Options of learners that learn from rollouts of their present policy."""

    adjustable = ALWAYS_ADJUSTABLE | {"minibatches", "batch_size", "epochs"}
    replaces = {"batch_size": "minibatches"}

    rollout_length: int = key(128, "Steps of each env between two updates.", ge=1)
    minibatches: int = key(4, "Minibatches per epoch.", ge=1)
    batch_size: int | None = key(None, "Rows of a minibatch; if given, it replaces `minibatches`.", ge=1)
    epochs: int = key(4, "How many times an update uses its rollout.", ge=1, le=10_000)

    @property
    def trace_lambda(self) -> float:
        """How far back an error of the values counts."""
        raise NotImplementedError


class PPOOptions(RolloutOptions):
    """Proximal policy optimisation."""

    adjustable = RolloutOptions.adjustable | {
        "gae_lambda", "clip", "clip_schedule", "clip_values", "entropy", "value_weight", "target_kl",
        "normalise_advantages",
    }  # fmt: skip

    gae_lambda: float = key(0.95, "Lambda of generalised advantage estimation.", ge=0, le=1)
    clip: float = key(0.2, "Clip range of the probability ratio.", gt=0)
    clip_schedule: ScheduleText = key(
        "constant", "Factor of the clip range over the run: constant, linear (to zero), or your own."
    )
    clip_values: float | None = key(None, "Clip range of value estimates; if omitted, no clipping.", gt=0)
    entropy: float = key(0.0, "Weight of the entropy bonus.", ge=0)
    value_weight: float = key(0.5, "Weight of the critic's loss.", ge=0)
    max_grad_norm: float = key(0.5, "Gradients with a larger norm are scaled down to it.", gt=0)
    target_kl: float | None = key(None, "Stop an update once the KL divergence exceeds this; if omitted, never.", gt=0)
    normalise_advantages: bool = key(True, "Shift and scale advantages within each minibatch.")
    hidden: Sizes = key([64, 64], "Widths of the hidden layers, for actor and critic each.")
    critic_hidden: Sizes | None = key(None, "Widths of the critic's hidden layers; if omitted, those of `hidden`.")
    log_std: float = key(0.0, "For continuous actions: initial log of the standard deviation.")
    noise: Colour = key("gaussian", COLOUR_HELP)
    recurrent: int | None = key(None, "Width of a recurrent core (GRU); if omitted, there is none.", ge=1, lt=2**31)
    share_weights: bool = key(
        False, "In worlds of several assets: one net for all, which reads an asset's own columns and the account's."
    )
    asset_columns: AssetLayout | None = key(
        None, "For `share_weights`, how observations are laid out: how many columns of the account come first; then, "
        "block after block, how many each asset has. If omitted, the world says it.",
    )  # fmt: skip

    @property
    def trace_lambda(self) -> float:
        return self.gae_lambda

    @property
    def critic_widths(self) -> Sizes:
        """Widths of the critic's hidden layers."""
        return self.hidden if self.critic_hidden is None else self.critic_hidden


PPO_SPEC = LearnerSpec(
    name="ppo",
    learner="rookery.learners.algorithms.ppo:PPO",
    policy="rookery.learners.algorithms.ppo:ActorCritic",
    options=PPOOptions,
    supports=is_any,
    needs="ppo needs a Discrete, MultiDiscrete, MultiBinary or Box of floats, or a Dict or Tuple of these",
    on_policy=True,
    kernel_envs=64,
    actor=ActorLayout("actor.layers."),
)


# --- SAC --------------------------------------------------------------------------------------------------------------


class SACOptions(ReplayOptions):
    """Soft actor-critic, for continuous actions."""

    adjustable = REPLAY_ADJUSTABLE | {"temperature", "target_entropy"}

    temperature: float | Literal["auto"] = key(
        "auto", "Weight of the entropy, or auto: learned so that the entropy meets its target."
    )
    temperature_start: float = key(1.0, "Initial value of a learned temperature.", gt=0)
    target_entropy: float | None = key(
        None, "Target of the learned temperature; if omitted, minus the number of action dimensions."
    )
    noise: Colour = key("gaussian", COLOUR_HELP)
    critic_hidden: Sizes | None = key(None, "Widths of the critics' hidden layers; if omitted, those of `hidden`.")

    def adjusted(self, changes: Mapping[str, Any]) -> Self:
        copy = super().adjusted(changes)
        now, wish = self.temperature, copy.temperature
        if now != wish and "auto" in (now, wish):
            raise OptionError(
                f"`temperature` cannot become {wish!r} in a run that began with {now!r}: whether it is learned is "
                "decided at the start"
            )
        return copy


SAC_SPEC = LearnerSpec(
    name="sac",
    learner="rookery.learners.algorithms.sac:SAC",
    policy="rookery.learners.algorithms.sac:SACPolicy",
    options=SACOptions,
    supports=is_bounded,
    needs="sac needs a Box of floats with finite bounds, or a Dict or Tuple of these",
    sample_efficient=True,
    actor=ActorLayout("net.layers.", continuous="squashed"),
)


# --- DQN --------------------------------------------------------------------------------------------------------------


class DQNOptions(PrioritisedOptions):
    """Deep Q-learning for discrete actions, with its four improvements; each can be switched off."""

    adjustable = PrioritisedOptions.adjustable | {
        "double", "loss", "target_every", "epsilon_start", "epsilon_end", "epsilon_steps", "epsilon_decay",
        "epsilon_per_env",
    }  # fmt: skip

    batch_size: int = key(64, "Transitions in one update.", ge=1)
    buffer_size: int = key(100_000, "Capacity of the replay buffer, in transitions.", ge=1)
    start_steps: int = key(1_000, "Steps with random actions before learning begins.", ge=0)
    updates_per_step: float = key(0.25, "Updates per step of an env.", gt=0, le=10_000)
    loss: Literal["huber", "squared"] = key("huber", "The loss of TD errors: Huber or half the square.")
    dueling: bool = key(True, "Estimate the state's value and the actions' advantages separately.")
    double: bool = key(True, "Choose the next action with the network, evaluate it with the target.")
    n_step: int = key(3, "Rewards summed before the target network's value is added.", ge=1)
    prioritised: bool = key(True, "Replay transitions with a large TD error more often.")
    target_every: int = key(1, "Updates between two updates of the target network.", ge=1)
    tau: float = key(0.01, "Share of the weights that the target network takes each time.", gt=0, le=1)
    epsilon_start: float = key(1.0, "Share of random actions at the start.", ge=0, le=1)
    epsilon_end: float = key(0.05, "Share of random actions in the end.", ge=0, le=1)
    epsilon_steps: int = key(10_000, "Steps over which that share falls.", ge=1)
    epsilon_decay: float | None = key(
        None, "Factor of that share after each episode; if given, it replaces `epsilon_steps`.", gt=0, le=1
    )
    epsilon_per_env: bool = key(False, "Spread the share over the envs: some explore more than others.")
    max_grad_norm: float | None = key(
        10.0, 'Gradients with a larger norm are scaled down to it; "none" for no limit.', gt=0
    )
    hidden: Sizes = key([128, 128], "Widths of the hidden layers.")


DQN_SPEC = LearnerSpec(
    name="dqn",
    learner="rookery.learners.algorithms.dqn:DQN",
    policy="rookery.learners.algorithms.dqn:QPolicy",
    options=DQNOptions,
    supports=is_discrete,
    needs="dqn needs a Discrete",
    actor=ActorLayout("net.hidden.", last="net.advantage.", value="net.value.", epsilon="epsilon_end"),
)


# --- TD3 and REDQ -----------------------------------------------------------------------------------------------------

# What the option `redq` sets, unless it is given. The paper has policy_delay = 20; a deterministic actor learns faster
# with 4 (Pendulum-v1, one seed, learning rate 1e-3: -139 after 1,000 steps, against -1,586 after 1,500 with 20).
REDQ = {"num_critics": 10, "min_critics": 2, "updates_per_step": 20.0, "policy_delay": 4, "target_every": 1}


class TD3Options(PrioritisedOptions):
    """Twin delayed deep deterministic policy gradients, for continuous actions; with `redq`, REDQ."""

    adjustable = PrioritisedOptions.adjustable | {
        "exploration_noise", "policy_noise", "noise_clip", "policy_delay", "target_every", "min_critics", "target_mode",
    }  # fmt: skip

    learning_rate: float = key(1e-3, "Step size of the optimizer.", gt=0)
    start_steps: int = key(1_000, "Steps with random actions before learning begins.", ge=0)
    redq: bool = key(
        False, "REDQ: unless given, num_critics = 10, min_critics = 2, updates_per_step = 20, policy_delay = 4, "
        "target_every = 1.",
    )  # fmt: skip
    num_critics: int = key(2, "Critics in the ensemble.", ge=1, lt=2**10)
    min_critics: int = key(2, "Critics, chosen at random, whose smallest value is the target.", ge=1)
    target_mode: Literal["min", "mean"] = key(
        "min", "The target: the smallest value of `min_critics` critics, or the mean of all."
    )
    exploration_noise: float = key(0.1, "Standard deviation of the noise on actions.", ge=0)
    noise: Colour = key("gaussian", COLOUR_HELP)
    policy_noise: float = key(0.2, "Standard deviation of the noise on target actions.", ge=0)
    noise_clip: float = key(0.5, "Limit of the noise on target actions.", ge=0)
    policy_delay: int = key(2, "Updates of the critics per update of the actor.", ge=1)
    target_every: int = key(2, "Updates between two updates of the target networks.", ge=1)
    critic_hidden: Sizes | None = key(None, "Widths of the critics' hidden layers; if omitted, those of `hidden`.")

    @model_validator(mode="before")
    @classmethod
    def _fill_in_redq(cls, given: Any) -> Any:
        return {**REDQ, **given} if isinstance(given, Mapping) and given.get("redq") is True else given


TD3_SPEC = LearnerSpec(
    name="td3",
    learner="rookery.learners.algorithms.td3:TD3",
    policy="rookery.learners.algorithms.td3:TD3Policy",
    options=TD3Options,
    supports=is_bounded,
    needs="td3 needs a Box of floats with finite bounds, or a Dict or Tuple of these",
    actor=ActorLayout("net.layers.", continuous="squashed", noise="exploration_noise"),
)


# --- PQN --------------------------------------------------------------------------------------------------------------


class PQNOptions(RolloutOptions):
    """Parallelised Q-learning: Q(lambda) on rollouts of many envs, without replay and without a target network."""

    adjustable = RolloutOptions.adjustable | {"q_lambda", "epsilon_start", "epsilon_end", "epsilon_fraction"}

    activation: Activation = key("relu", "The activation function between layers.")
    rollout_length: int = key(32, "Steps of each env between two updates.", ge=1)
    q_lambda: float = key(0.65, "Lambda of the returns that values are fitted to.", ge=0, le=1)
    epsilon_start: float = key(1.0, "Share of random actions at the start.", ge=0, le=1)
    epsilon_end: float = key(0.05, "Share of random actions in the end.", ge=0, le=1)
    epsilon_fraction: float = key(0.2, "Part of the run over which that share falls.", gt=0, le=1)
    max_grad_norm: float | None = key(
        10.0, 'Gradients with a larger norm are scaled down to it; "none" for no limit.', gt=0
    )
    hidden: Sizes = key([128, 128], "Widths of the hidden layers, which are layer-normalised.")

    @property
    def trace_lambda(self) -> float:
        return self.q_lambda


PQN_SPEC = LearnerSpec(
    name="pqn",
    learner="rookery.learners.algorithms.pqn:PQN",
    policy="rookery.learners.algorithms.pqn:PQNPolicy",
    options=PQNOptions,
    supports=is_choice,
    needs="pqn needs a Discrete or MultiDiscrete",
    on_policy=True,
    kernel_envs=64,
    actor=ActorLayout("net.layers.", epsilon="epsilon_end", layer_norm=True),
)


# --- XQC --------------------------------------------------------------------------------------------------------------


class XQCOptions(SACOptions):
    """SAC with batch-normalised, weight-normalised critics that estimate distributions of values."""

    adjustable = SACOptions.adjustable | {"policy_delay"}

    batch_size: int = key(256, "Transitions in one update.", ge=2)
    buffer_size: int = key(1_000_000, "Capacity of the replay buffer, in transitions.", ge=1)
    start_steps: int = key(1_000, "Steps with random actions before learning begins.", ge=0)
    normalise_rewards: bool = key(
        True, "Scale rewards by running statistics: discounted returns have standard deviation 1, and none is beyond "
        "`value_limit`.",
    )  # fmt: skip
    temperature_start: float = key(0.01, "Initial value of a learned temperature.", gt=0)
    target_entropy: float | None = key(
        None, "Target of the learned temperature; if omitted, minus half the number of action dimensions."
    )
    tau: float = key(
        0.005, "Share of the weights that the target critics take per update; 1 for no targets.", gt=0, le=1
    )
    policy_delay: int = key(3, "Updates of the critics per update of the actor.", ge=1)
    atoms: int = key(101, "Values among which the critics distribute probability.", ge=2, lt=2**16)
    value_limit: float = key(5.0, "The atoms lie between minus this and this.", gt=0)
    hidden: Sizes = key([256, 256, 256, 256], "Widths of the actor's hidden layers.")
    critic_hidden: Sizes | None = key(
        [512, 512, 512, 512], "Widths of the critics' hidden layers; if omitted, those of `hidden`."
    )


XQC_SPEC = LearnerSpec(
    name="xqc",
    learner="rookery.learners.algorithms.xqc:XQC",
    policy="rookery.learners.algorithms.xqc:XQCPolicy",
    options=XQCOptions,
    supports=is_bounded,
    needs="xqc needs a Box of floats with finite bounds, or a Dict or Tuple of these",
    actor=ActorLayout("net.weights.", last="net.", continuous="squashed", norms="net.norms."),
)
