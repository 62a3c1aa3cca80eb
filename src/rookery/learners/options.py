"""What can be chosen about each learner. No torch here: a wrong option is told of before anything heavy is loaded."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rookery.errors import OptionError

Activation = Literal["tanh", "relu", "elu", "gelu", "silu"]
Sizes = Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(max_length=100)]
UpdatesEach = Literal["step", "round"]

ALWAYS_ADJUSTABLE = frozenset({"learning_rate", "learning_rate_schedule", "gamma", "max_grad_norm", "threads"})
REPLAY_ADJUSTABLE = ALWAYS_ADJUSTABLE | {"batch_size", "updates_per_step", "updates_each", "tau"}


class Options(BaseModel):
    """What all learners have."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)
    adjustable: ClassVar[frozenset[str]] = ALWAYS_ADJUSTABLE  # what may change during a run

    learning_rate: float = Field(3e-4, gt=0, description="Step size of the optimiser.")
    learning_rate_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Keep the learning rate, or let it fall to zero in a straight line over the run."
    )
    gamma: float = Field(0.99, gt=0, le=1, description="What a reward one step later is worth now.")
    activation: Activation = Field("tanh", description="The nonlinearity between layers.")
    normalise_observations: bool = Field(
        False, description="Shift and scale vectors and images to mean 0 and deviation 1, by running statistics."
    )
    normalise_rewards: bool = Field(
        False, description="Scale rewards so that discounted returns have deviation 1, by running statistics."
    )
    accelerate: bool = Field(
        True,
        description="Use the learner's accelerators (written-out gradients, compiled acting) where they fit; false "
        "runs the plain algorithm, with the same results to float tolerance.",
    )
    threads: int | None = Field(
        None,
        ge=1,
        lt=2**16,
        description="CPU threads for tensor operations; left out, found by measuring and kept with the run.",
    )

    def adjusted(self, changes: Mapping[str, Any]) -> Self:
        """A copy with other values, such as a learner can take on while it runs. Options that keep their values may be
        named too.

        Raises:
            OptionError: A name is unknown, a value cannot work, or the option decides what is built at the start.
        """
        for name in changes:
            if name not in type(self).model_fields:
                raise OptionError(_unknown(name, list(type(self).model_fields)))
        try:
            copy = self.model_validate({**self.model_dump(), **changes}, strict=True)
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            name = str(wrong["loc"][0])
            raise OptionError(f"`{name}` cannot be {changes[name]!r}: {wrong['msg']}") from None
        fixed = [name for name in changes if name not in self.adjustable and getattr(self, name) != getattr(copy, name)]
        if fixed:
            raise OptionError(
                f"`{'` and `'.join(fixed)}` cannot change during a run; these can: {', '.join(sorted(self.adjustable))}"
            )
        return copy


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown option `{name}`; " + (f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}")


class PPOOptions(Options):
    """Proximal policy optimisation."""

    adjustable = ALWAYS_ADJUSTABLE | {
        "minibatches", "batch_size", "epochs", "gae_lambda", "clip", "clip_schedule", "clip_values", "entropy",
        "value_weight", "target_kl", "normalise_advantages",
    }  # fmt: skip

    rollout_length: int = Field(128, ge=1, description="Steps of each env between two updates.")
    minibatches: int = Field(4, ge=1, description="Into how many parts each epoch divides a rollout.")
    batch_size: int | None = Field(
        None, ge=1, description="Rows of one part, which then decides how many there are, instead of `minibatches`."
    )
    epochs: int = Field(4, ge=1, description="How many times an update goes through its rollout.")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="How far advantages trust rewards over the critic.")
    clip: float = Field(0.2, gt=0, description="How far the policy may move from the one that acted.")
    clip_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Keep the clip range, or let it fall to zero in a straight line over the run."
    )
    clip_values: float | None = Field(None, gt=0, description="How far value estimates may move; left out, freely.")
    entropy: float = Field(0.0, ge=0, description="Weight of the reward for keeping the policy random.")
    value_weight: float = Field(0.5, ge=0, description="Weight of the critic's loss.")
    max_grad_norm: float = Field(0.5, gt=0, description="Longer gradients are cut to this length.")
    target_kl: float | None = Field(
        None, gt=0, description="Stop an update once the policy has moved this far; left out, never."
    )
    normalise_advantages: bool = Field(True, description="Shift and scale advantages within each minibatch.")
    hidden: Sizes = Field([64, 64], description="Widths of the hidden layers, for actor and critic each.")
    log_std: float = Field(0.0, description="For continuous actions: where the log of the deviation starts.")
    recurrent: int | None = Field(
        None, ge=1, lt=2**31, description="Width of a recurrent core (GRU) before the heads; left out, there is none."
    )


class SACOptions(Options):
    """Soft actor-critic, for continuous actions."""

    adjustable = REPLAY_ADJUSTABLE | {"temperature", "target_entropy"}

    activation: Activation = Field("relu", description="The nonlinearity between layers.")
    batch_size: int = Field(256, ge=1, description="Transitions in one update.")
    buffer_size: int = Field(300_000, ge=1, description="Transitions kept for replay.")
    start_steps: int = Field(100, ge=0, description="Steps with random actions before learning begins.")
    updates_per_step: float = Field(1.0, gt=0, description="Updates for each step of an env.")
    updates_each: UpdatesEach = Field(
        "step", description="What `updates_per_step` counts: each env's steps, or rounds in which all envs step once."
    )
    n_step: int = Field(1, ge=1, description="Rewards summed before the critic is asked.")
    tau: float = Field(0.005, gt=0, le=1, description="How fast the target critics follow.")
    temperature: float | Literal["auto"] = Field(
        "auto", description="Weight of the entropy, or auto: learned so that the entropy meets its target."
    )
    temperature_start: float = Field(1.0, gt=0, description="Where a temperature that is learned begins.")
    target_entropy: float | None = Field(None, description="Left out, minus the number of action dimensions.")
    noise: Literal["gaussian", "pink"] = Field(
        "gaussian", description="Exploration noise: independent at each step, or pink, which holds a course longer."
    )
    max_grad_norm: float | None = Field(None, gt=0, description="Longer gradients are cut to this length.")
    hidden: Sizes = Field([256, 256], description="Widths of the hidden layers, for the actor and each critic.")

    def adjusted(self, changes: Mapping[str, Any]) -> Self:
        copy = super().adjusted(changes)
        now, wish = self.temperature, copy.temperature
        if now != wish and "auto" in (now, wish):
            raise OptionError(
                f"`temperature` cannot become {wish!r} in a run that began with {now!r}: whether it is learned is "
                "decided at the start"
            )
        return copy


class DQNOptions(Options):
    """Deep Q-learning for discrete actions, with its four improvements; each can be switched off."""

    adjustable = REPLAY_ADJUSTABLE | {
        "double", "loss", "importance_exponent", "importance_steps", "priority_floor", "target_every", "epsilon_start",
        "epsilon_end", "epsilon_steps", "epsilon_decay", "epsilon_per_env",
    }  # fmt: skip

    activation: Activation = Field("relu", description="The nonlinearity between layers.")
    batch_size: int = Field(64, ge=1, description="Transitions in one update.")
    buffer_size: int = Field(100_000, ge=1, description="Transitions kept for replay.")
    start_steps: int = Field(1_000, ge=0, description="Steps with random actions before learning begins.")
    updates_per_step: float = Field(0.25, gt=0, description="Updates for each step of an env.")
    updates_each: UpdatesEach = Field(
        "step", description="What `updates_per_step` counts: each env's steps, or rounds in which all envs step once."
    )
    loss: Literal["huber", "squared"] = Field(
        "huber", description="What an error costs: its square, or beyond 1 only as much more as it grows (Huber)."
    )
    dueling: bool = Field(True, description="Estimate the state's value and the actions' advantages apart.")
    double: bool = Field(True, description="Choose the next action with one net and judge it with the other.")
    n_step: int = Field(3, ge=1, description="Rewards summed before the target net is asked; 1 switches it off.")
    prioritised: bool = Field(True, description="Replay surprising transitions more often.")
    priority_exponent: float = Field(0.6, ge=0, le=1, description="How much surprise counts in the choice.")
    importance_exponent: float = Field(0.4, ge=0, le=1, description="How far the choice is corrected, at the start.")
    importance_steps: int = Field(50_000, ge=1, description="Steps after which it is corrected in full.")
    priority_floor: float = Field(1e-6, gt=0, description="Added to each surprise, so that none is never replayed.")
    target_every: int = Field(1, ge=1, description="Updates between two copies to the target net.")
    tau: float = Field(0.01, gt=0, le=1, description="How much of the net goes into the target net at each copy.")
    epsilon_start: float = Field(1.0, ge=0, le=1, description="Share of random actions at the start.")
    epsilon_end: float = Field(0.05, ge=0, le=1, description="Share of random actions in the end.")
    epsilon_steps: int = Field(10_000, ge=1, description="Steps over which that share falls.")
    epsilon_decay: float | None = Field(
        None,
        gt=0,
        le=1,
        description="That share is multiplied by this after each episode, instead of falling over `epsilon_steps`.",
    )
    epsilon_per_env: bool = Field(False, description="Spread the share over the envs: some explore more than others.")
    max_grad_norm: float | None = Field(10.0, gt=0, description="Longer gradients are cut to this length.")
    hidden: Sizes = Field([128, 128], description="Widths of the hidden layers.")


OPTIONS: dict[str, type[Options]] = {"ppo": PPOOptions, "sac": SACOptions, "dqn": DQNOptions}
