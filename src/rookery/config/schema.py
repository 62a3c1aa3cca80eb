"""The fields of a configuration. Each one's sentence is its help on the command line and in the docs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rookery.config.curriculum_schema import LeagueOptions, Opponent, Phase, opponents_by_name
from rookery.config.layers import names_in
from rookery.learners.options import DQNOptions, PPOOptions, SACOptions
from rookery.worlds import registry

Count = Annotated[int, Field(ge=1)]
SEEDS = 2**63  # what both NumPy and torch take

LearnerName = Literal["auto", "ppo", "sac", "dqn"]
Backend = Literal["auto", "serial", "thread", "process", "kernel"]


def _told_as(words: str) -> dict[str, Any]:
    """What is valid, in words, where a type and its limits would not say it."""
    return {"words": words}


class Section(BaseModel):
    """A part of the configuration. Keys that do not exist are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class EvaluationOptions(Section):
    """How the agent is measured during a run: on one env with a seed of its own."""

    every: Count | None = Field(None, description="Steps between two evaluations; left out, there are ten in a run.")
    episodes: int = Field(10, ge=1, description="Episodes of one evaluation.")
    seed: int | None = Field(
        None, ge=0, lt=SEEDS, description="Seed of the env that evaluates; left out, it follows from the run's seed."
    )
    stop_at: float | None = Field(None, description="End the run once an evaluation reaches this mean return.")
    deterministic: bool = Field(True, description="Evaluate the likeliest action rather than a drawn one.")
    every_episodes: Count | None = Field(None, description="Episodes between two evaluations, instead of steps.")
    opponents: list[str] = Field(
        [],
        description="Whom to meet in an evaluation, in `evaluation.episodes` games each, sides alternating; left out, "
        "the world as it is trained on, or its scripts where there are phases with opponents.",
        json_schema_extra=_told_as("a list of names, or text with commas between them"),
    )

    @field_validator("opponents", mode="before")
    @classmethod
    def _opponents_in_text(cls, value: Any) -> Any:
        return names_in(value)


class CheckpointOptions(Section):
    """What is kept so that a run can go on after anything."""

    every: Count | None = Field(None, description="Steps between two checkpoints; left out, there are ten in a run.")
    every_episodes: Count | None = Field(None, description="Episodes between two checkpoints, instead of steps.")
    keep: int = Field(3, ge=1, description="How many of the latest are kept; the best one is kept as well.")
    dir: str | None = Field(
        None, min_length=1, description="Folder for checkpoints; left out, `checkpoints` in the run's own folder."
    )
    replay: bool = Field(True, description="Save the replay buffer too, without which a resumed run is not the same.")


class MonitorOptions(Section):
    """What can be seen of a run."""

    panel: bool | Literal["auto"] = Field(
        "auto", description="Show a live panel instead of plain lines; auto does so on a terminal."
    )
    tensorboard: bool = Field(True, description="Write metrics for TensorBoard.")
    wandb: bool = Field(False, description="Send metrics to Weights & Biases.")
    mlflow: bool = Field(False, description="Send metrics to MLflow.")
    plot: bool = Field(True, description="Draw plots/learning.png when the run ends.")
    video: bool = Field(False, description="Record a video of the agent when the run ends.")


class RunConfig(Section):
    """Everything that decides a run."""

    world: str = Field(
        min_length=1,
        description="What to train on: a Gymnasium id such as CartPole-v1, my_file.py:MyEnv, "
        f"{', or '.join(registry.names(plugins=False))}.",
    )
    world_options: dict[str, Any] = Field({}, description="Keyword arguments for the world.")
    tables: dict[str, Any] = Field(
        {},
        description="Shape and hash of each table of a kernel world, written by the run: to resume it needs the same.",
    )
    steps: int = Field(100_000, gt=0, description="How many steps to train for, counted over all envs.")
    episodes: Count | None = Field(None, description="Stop after so many episodes, if that comes first.")
    episode_length: Count | None = Field(
        None, description="Steps after which an episode is cut; left out, as the world has it."
    )
    seed: int = Field(0, ge=0, lt=SEEDS, description="The same seed and configuration give the same run.")

    num_envs: Count | Literal["auto", "adaptive"] = Field(
        "auto", description="How many envs run at once; auto measures, adaptive goes on measuring during the run."
    )
    backend: Backend = Field(
        "auto", description="What steps the envs: serial, thread, process, kernel, or auto, which measures."
    )
    workers: int | None = Field(None, ge=1, description="How many workers share the envs; left out, measured.")
    start_method: Literal["spawn", "forkserver", "fork"] | None = Field(
        None, description="How worker processes start: spawn, forkserver or fork; left out, the safest that is quick."
    )
    twin: bool = Field(True, description="Take the compiled twin of a world where rookery has one.")
    groups: Literal[1, 2] | None = Field(
        None, description="With 2, one half of the envs steps while the policy acts for the other; left out, decided."
    )
    step_timeout: float | None = Field(
        None,
        gt=0,
        description="Seconds after which a step is hung: its worker is replaced; a kernel world's step is stopped.",
    )
    on_failure: Literal["restart", "raise"] = Field(
        "restart", description="Replace an env that fails and go on, or end the run with its error."
    )
    max_restarts: int = Field(
        10, ge=0, description="How many restarts of one env are allowed within a minute before the run gives up."
    )
    bad_values: Literal["finite", "raise", "restart", "allow"] = Field(
        "finite", description="Refuse NaN and infinity only, or all that lies outside the space; or restart, or allow."
    )

    learner: LearnerName = Field("auto", description="Who learns; auto looks at the action space.")
    learning_rate: float | None = Field(
        None, gt=0, description="Learning rate of whichever learner is chosen; short for ppo.learning_rate and so on."
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="Where the learner computes; auto takes a GPU if there is one and it helps.",
        json_schema_extra=_told_as('"auto", "cpu", "cuda", "cuda:N" (a GPU by number) or "mps"'),
    )

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=,@-]{0,99}$",
        description="Name of the run; left out, made of world, learner and seed.",
        json_schema_extra=_told_as("a folder's name of letters, digits and any of _ . + = , @ -"),
    )
    runs_dir: str = Field("runs", min_length=1, description="Folder in which each run has a folder of its own.")

    ppo: PPOOptions = Field(default_factory=PPOOptions, description="Options of PPO.")
    sac: SACOptions = Field(default_factory=SACOptions, description="Options of SAC.")
    dqn: DQNOptions = Field(default_factory=DQNOptions, description="Options of DQN.")

    callbacks: list[str] = Field(
        [],
        description="Classes derived from rookery.Callback that the run calls, such as my_file.py:MyCallback.",
        json_schema_extra=_told_as("a list of names such as my_file.py:MyCallback, or text with commas between them"),
    )
    wrappers: list[str] = Field(
        [],
        description="What each env is wrapped in, such as my_file.py:MyWrapper: Gymnasium wrappers, functions of an "
        "env, or reward functions.",
        json_schema_extra=_told_as("a list of names such as my_file.py:MyWrapper, or text with commas between them"),
    )

    opponents: list[Opponent] = Field(
        [],
        description=f"Opponents: weak, strong, self, latest, archive, {registry.default_game().name}, a run or "
        "file.py:Agent; phases can have others.",
        json_schema_extra=_told_as('a name such as "self" or "strong", or a list of names or tables'),
    )
    phases: list[Phase] = Field(
        [],
        description="Stretches of the run, one after the other; each may change world, opponents and rewards.",
        json_schema_extra=_told_as("a list of tables, [[phases]] in TOML"),
    )
    reward_scale: float = Field(1.0, gt=0, description="Rewards are multiplied by this before the learner sees them.")
    league: LeagueOptions = Field(
        default_factory=LeagueOptions, description="Past agents that are kept to play against."
    )
    evaluation: EvaluationOptions = Field(
        default_factory=EvaluationOptions, description="How the agent is measured during a run."
    )
    checkpoints: CheckpointOptions = Field(default_factory=CheckpointOptions, description="What is kept to go on from.")
    monitor: MonitorOptions = Field(default_factory=MonitorOptions, description="What can be seen of a run.")

    @field_validator("callbacks", "wrappers", mode="before")
    @classmethod
    def _names_in_text(cls, value: Any) -> Any:
        return names_in(value)

    @field_validator("opponents", mode="before")
    @classmethod
    def _opponents_by_name(cls, value: Any) -> Any:
        return opponents_by_name(value)

    @property
    def has_curriculum(self) -> bool:
        """Whether there is more to the run than its world: phases, opponents, or rewards of another size."""
        return bool(self.phases or self.opponents or self.reward_scale != 1.0)

    @property
    def all_phases(self) -> list[Phase]:
        """At least one; with the run's opponents where a phase has none of its own."""
        phases = self.phases or [Phase()]
        return [
            phase if phase.opponents else phase.model_copy(update={"opponents": self.opponents}) for phase in phases
        ]

    @property
    def takes_twin(self) -> bool:
        """Whether a compiled twin may stand in: not where the other wishes are about worker processes."""
        return (
            self.twin
            and self.backend in ("auto", "kernel")
            and self.num_envs != "adaptive"
            and self.step_timeout is None
            and not self.wrappers
        )

    @model_validator(mode="after")
    def check_together(self) -> RunConfig:
        """Refuse keys that contradict each other with a ValueError."""
        if self.num_envs == "adaptive":
            if self.groups == 2:
                raise ValueError('`groups` = 2 cannot go with `num_envs` = "adaptive": leave one of them out')
            if self.backend not in ("auto", "process"):
                raise ValueError(
                    f'`num_envs` = "adaptive" needs `backend` = "process" or "auto", got {self.backend!r}; '
                    'with other backends give a number or "auto"'
                )
        if self.num_envs == 1 and self.groups == 2:
            raise ValueError("`groups` = 2 needs at least two envs: `num_envs` is 1")
        fixed = isinstance(self.num_envs, int) and self.backend in ("process", "thread")
        if fixed and self.workers is not None and self.workers > self.num_envs:  # type: ignore[operator]
            raise ValueError(f"`workers` = {self.workers} is more than `num_envs` = {self.num_envs}")
        if self.step_timeout is not None and self.backend not in ("auto", "process", "kernel"):
            raise ValueError(
                f'`step_timeout` needs `backend` = "process" or "kernel": {self.backend!r} cannot stop a hung step'
            )
        for number, phase in enumerate(self.phases[:-1], 1):
            if not phase.ends:
                raise ValueError(f"`phases`: number {number} has no end: give it `episodes`, `steps` or `until`")
        if self.has_curriculum and self.num_envs == "adaptive":
            raise ValueError('`num_envs` = "adaptive" cannot go with `phases`, `opponents` or `reward_scale`')
        if self.name == "latest":
            raise ValueError("`name` cannot be 'latest', which stands for the run that was started last")
        return self
