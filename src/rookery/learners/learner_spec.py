"""What rookery knows about a learner before it loads it: the options that all have in common, and its spec. No torch
here: a config is read, and a wrong option reported, without anything heavy."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rookery.errors import OptionError
from rookery.gate import Reaches
from rookery.lazy import load_object
from rookery.learners.own_learners import ENTRY_POINTS
from rookery.learners.schedules import ScheduleText

Activation = Literal["tanh", "relu", "elu", "gelu", "silu"]
Sizes = Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(max_length=100)]
AssetLayout = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=2, max_length=10_000)]
UpdatesEach = Literal["step", "round"]
Precision = Literal["auto", "float32", "tf32", "bf16"]
Colour = Literal["gaussian", "pink"] | Annotated[float, Field(ge=0, le=2)]  # of noise: see `learners/noise.py`
COLOUR_HELP = (
    "Exploration noise of continuous actions: gaussian, independent at each step; pink, correlated over steps; or the "
    "exponent of its spectrum, from 0 (gaussian) over 1 (pink) to 2 (red, whose swings are slowest)."
)

# Options that decide which arrays the networks have: weights fit the same ones only.
WIDTHS = ("hidden", "critic_hidden")
NET_OPTIONS = (
    *WIDTHS, "activation", "network", "network_options", "recurrent", "dueling", "num_critics",
    "normalise_observations", "share_weights", "asset_columns",
)  # fmt: skip
ALWAYS_ADJUSTABLE = frozenset({"learning_rate", "learning_rate_schedule", "gamma", "max_grad_norm", "threads"})
REPLAY_ADJUSTABLE = ALWAYS_ADJUSTABLE | {"batch_size", "updates_per_step", "updates_each", "tau"}


def key(default: Any, description: str, **limits: Any) -> Any:
    """A key of a configuration: what it is if it is not given, its help, and limits as those of pydantic's `Field`."""
    return Field(default, description=description, **limits)


class Options(BaseModel):
    """Options of all learners."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)
    adjustable: ClassVar[frozenset[str]] = ALWAYS_ADJUSTABLE  # what may change during a run
    replaces: ClassVar[dict[str, str]] = {}  # an option -> the one that it replaces if it is given

    learning_rate: float = key(3e-4, "Step size of the optimizer.", gt=0)
    learning_rate_schedule: ScheduleText = key(
        "constant", "Factor of the learning rate over the run: constant, linear (to zero), or your own."
    )
    gamma: float = key(0.99, "Discount factor of rewards, per step.", gt=0, le=1)
    activation: Activation = key("tanh", "The activation function between layers.")
    normalise_observations: bool = key(
        False, "Shift and scale vectors and images to mean 0 and standard deviation 1, by running statistics."
    )
    normalise_rewards: bool = key(
        False, "Scale rewards so that discounted returns have standard deviation 1, by running statistics."
    )
    images: Literal["auto", "cnn", "impala", "flat", "levels"] = key(
        "auto", "How images are read: cnn by convolutions, impala by a residual network, flat as one vector of all "
        "pixels, levels as one vector with a number per pixel and level of grey. auto is cnn, but flat for images "
        "with a side below 12 pixels, and levels if those have one plane.",
    )  # fmt: skip
    network: Annotated[str | None, Reaches("code", when_playing=True)] = Field(
        None,
        pattern=r"\.py:|^object:",
        description="Your own network, such as my_file.py:MyNet: an encoder, or a whole actor and critic.",
        json_schema_extra={"words": "the name of a torch.nn.Module, such as my_file.py:MyNet"},
    )
    network_options: Annotated[dict[str, Any], Reaches("code", "files", "network", when_playing=True)] = key(
        {}, "Keyword arguments for your own network, such as {features_dim = 128}."
    )
    accelerate: bool = key(
        True, "Use the learner's accelerators (written-out gradients, compiled acting) where they fit; false runs the "
        "plain algorithm, with the same results to float tolerance.",
    )  # fmt: skip
    precision: Precision = key(
        "auto", "On a GPU, how products of matrices are computed: float32, or faster as tf32 or bf16 with sums in "
        "float32. auto is the fastest that learns as well as float32. A CPU computes in float32.",
    )  # fmt: skip
    deterministic: bool = key(
        True, "On a GPU, use only algorithms that give the same numbers in every run with the same seed. A run says "
        "which operations of a network have none; false is faster for some networks.",
    )  # fmt: skip
    threads: int | None = key(
        None, "CPU threads for tensor operations; if omitted, measured once and stored with the run.", ge=1, lt=2**16
    )

    def adjusted(self, changes: Mapping[str, Any]) -> Self:
        """A copy with other values, such as a learner can change during a run. Unchanged values may be named too.

        Raises:
            OptionError: A name is unknown, a value is invalid, or the option is fixed at the start.
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


class ReplayOptions(Options):
    """Options of learners with a replay buffer."""

    adjustable = REPLAY_ADJUSTABLE

    activation: Activation = key("relu", "The activation function between layers.")
    batch_size: int = key(256, "Transitions in one update.", ge=1)
    buffer_size: int = key(300_000, "Capacity of the replay buffer, in transitions.", ge=1)
    start_steps: int = key(100, "Steps with random actions before learning begins.", ge=0)
    updates_per_step: float = key(1.0, "Updates per step of an env.", gt=0, le=10_000)
    updates_each: UpdatesEach = key(
        "step", "What `updates_per_step` counts: each env's steps, or rounds in which all envs step once."
    )
    n_step: int = key(1, "Rewards summed before the target network's value is added.", ge=1)
    hindsight: int = Field(
        0, ge=0, le=100,
        description="In worlds with goals: how often each transition is stored again, with a goal that was reached "
        "later in its episode; 0 for never, 4 is usual.",
    )  # fmt: skip
    dataset: Annotated[str | None, Reaches("files")] = key(
        None, "Recorded steps that are in the replay buffer before the first step: a Minari dataset by its name or "
        "folder, or a .npz file.", min_length=1,
    )  # fmt: skip
    tau: float = key(0.005, "Share of the weights that the target network takes per update.", gt=0, le=1)
    max_grad_norm: float | None = key(
        None, "Gradients with a larger norm are scaled down to it; if omitted, none are.", gt=0
    )
    hidden: Sizes = key([256, 256], "Widths of the hidden layers of each network.")

    @property
    def steps_in_order(self) -> bool:
        """Whether the replay buffer gets the steps of each env one after the other, and nothing else."""
        return not self.hindsight and self.dataset is None


class PrioritisedOptions(ReplayOptions):
    """Options of learners with prioritised replay."""

    adjustable = REPLAY_ADJUSTABLE | {"importance_exponent", "importance_steps", "priority_floor"}

    prioritised: bool = key(False, "Replay transitions with a large TD error more often.")
    priority_exponent: float = key(0.6, "Exponent of TD errors as priorities (alpha).", ge=0, le=1)
    importance_exponent: float = key(0.4, "Initial exponent of importance weights (beta).", ge=0, le=1)
    importance_steps: int = key(50_000, "Steps over which that exponent rises to 1.", ge=1)
    priority_floor: float = key(1e-6, "Added to each TD error, so that all are replayed sometimes.", gt=0)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown option `{name}`; " + (f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}")


# --- specs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActorLayout:
    """Where a policy's saved arrays have its actor, for agents that act with NumPy alone."""

    layers: str  # the names of its layers begin with this, and continue with a number
    last: str | None = None  # a last layer with a name of its own
    value: str | None = None  # a dueling network's layer for the value of the state, on which no action depends
    continuous: Literal["cut", "squashed"] = "cut"  # how continuous actions get into their bounds: clipped, or by tanh
    layer_norm: bool = False  # whether its hidden layers are normalised before the activation
    epsilon: str | None = None  # the option that holds the share of random actions
    noise: str | None = None  # the option that holds the standard deviation of noise on squashed actions
    norms: str | None = None  # batch norms: of the inputs, and after each hidden layer; `layers` are weights alone


@dataclass(frozen=True)
class LearnerSpec:
    """One learner: where its code is, its options, the action spaces it supports.

    Installed packages offer theirs by an entry point in the group `rookery.learners`.
    """

    name: str  # as in `--learner NAME`, and of its section in a config
    learner: str  # "package.module:Class" of the `Learner`
    policy: str  # "package.module:Class" of its `Policy`
    options: type[Options]
    supports: Callable[[Any], bool]  # whether it can act in an action space
    needs: str  # the same in words, for messages
    title: str = ""  # in texts; the name in capitals if omitted
    on_policy: bool = False
    sample_efficient: bool = False  # the default where it fits and steps are expensive
    kernel_envs: int = 4  # envs of a kernel world without a recipe
    actor: ActorLayout | None = field(default=None)  # None: it cannot be exported as a standalone agent

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.upper())

    def load_learner(self) -> Any:
        """The class of the learner."""
        return load_object(self.learner)

    def load_policy(self) -> Any:
        """The class of the policy."""
        return load_object(self.policy)


def installed_specs(taken: Iterable[str]) -> dict[str, LearnerSpec]:
    """The specs of installed packages, by name. One that cannot be loaded is skipped with a warning."""
    found: dict[str, LearnerSpec] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            spec = entry.load()
            if not isinstance(spec, LearnerSpec):
                raise TypeError(f"{entry.value} is a {type(spec).__name__}, not a LearnerSpec")
            if spec.name in (*taken, *found):
                raise ValueError(f"there is already a learner {spec.name!r}")
        except Exception as error:  # noqa: BLE001 - other people's code may raise anything
            warnings.warn(f"learner plugin {entry.name!r} is skipped: {type(error).__name__}: {error}", stacklevel=2)
        else:
            found[spec.name] = spec
    return found
