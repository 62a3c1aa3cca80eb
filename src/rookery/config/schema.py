"""The fields of a configuration. The description of a field is its help on the command line and in the docs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from rookery.config.layers import split_names
from rookery.config.sections import (
    ClusterOptions,
    ConfigTable,
    Count,
    LeagueOptions,
    Opponent,
    Phase,
    SearchOptions,
    opponents_by_name,
)
from rookery.config.train_options import Backend
from rookery.gate import Inside, Reaches
from rookery.learners.learner_spec import key
from rookery.learners.registry import option_classes, specs
from rookery.worlds import registry

SEEDS = 2**63  # what both NumPy and torch take

LearnerName: Any = Literal[("auto", *specs())]
Sides = Annotated[list[Count], Field(min_length=2, max_length=2)]


def _valid(text: str) -> dict[str, Any]:
    """Describes the valid values, where the type and its limits do not."""
    return {"words": text}


class EvaluationOptions(ConfigTable):
    """How the agent is evaluated during a run: in separate envs, with seeds of their own."""

    every: Count | None = key(None, "Steps between two evaluations; if omitted, ten evaluations per run.")
    episodes: int = key(10, "Number of episodes per evaluation.", ge=1)
    max_episodes: Count | None = key(
        None, "Largest number of episodes. An evaluation plays more than `evaluation.episodes` while the 95 % "
        "interval of its mean is wider than +- 10 %. If omitted, 4 times `evaluation.episodes`; in worlds that are "
        "not compiled, only while the evaluation takes few steps beside those of training, about a twentieth.",
    )  # fmt: skip
    seed: int | None = key(None, "Seed of the evaluations; if omitted, derived from the run's seed.", ge=0, lt=SEEDS)
    stop_at: float | None = key(None, "Stop the run once the mean return of an evaluation reaches this value.")
    deterministic: bool = key(True, "Use deterministic actions in evaluations, instead of sampled ones.")
    every_episodes: Count | None = key(None, "Episodes between two evaluations, instead of steps.")
    opponents: Annotated[list[str], Reaches("code", "files", "network", when_playing=True)] = key(
        [], "Opponents of an evaluation, with `evaluation.episodes` games against each; sides alternate. If omitted, "
        "the agent is evaluated in the training world, or against the world's scripts if phases have opponents.",
        json_schema_extra=_valid("a list of names, or a string with names separated by commas"),
    )  # fmt: skip

    @field_validator("opponents", mode="before")
    @classmethod
    def _opponents_in_text(cls, value: Any) -> Any:
        return split_names(value)

    @model_validator(mode="after")
    def _more_episodes(self) -> EvaluationOptions:
        if self.max_episodes is not None and self.max_episodes < self.episodes:
            raise ValueError(
                f"`evaluation.max_episodes` = {self.max_episodes} should be >= `evaluation.episodes` = {self.episodes}"
            )
        return self


class CheckpointOptions(ConfigTable):
    """Checkpoints, from which a run can be resumed."""

    every: Count | None = key(None, "Steps between two checkpoints; if omitted, ten per run, and more in a long one.")
    every_episodes: Count | None = key(None, "Episodes between two checkpoints, instead of steps.")
    keep: int = key(3, "Number of latest checkpoints to keep; the best one is always kept.", ge=1)
    budget: float = key(
        100.0, "MB for earlier checkpoints too, for `rookery rewind`: the further back, the fewer are kept.", ge=0
    )
    dir: Annotated[str | None, Reaches("files", when_playing=True)] = key(
        None, "Folder of the checkpoints; if omitted, `checkpoints` in the run's folder.", min_length=1
    )
    mirror: Annotated[str | None, Reaches("network")] = key(
        None, "URL that every checkpoint is copied to while the run continues, such as s3://bucket/runs; `rookery "
        "resume URL/NAME` continues from there.", pattern=r"^[A-Za-z][A-Za-z0-9+.-]+://.",
    )  # fmt: skip
    replay: bool = key(True, "Save the replay buffer; without it, a resumed run differs.")


class MonitorOptions(ConfigTable):
    """Output of a run: panel, metrics, plots, reports, videos."""

    verbose: bool = key(True, "Print progress and the summary; false prints nothing at all.")
    panel: bool | Literal["auto"] = key(
        "auto", "Show a live panel instead of plain lines; auto shows it on a terminal."
    )
    episodes: bool = key(True, "Write episodes.jsonl: one line per episode, a sample in long runs.")
    system: bool = key(True, "Measure CPU, memory and GPU of the run, as metrics system/...")
    tensorboard: bool = key(True, "Write metrics for TensorBoard.")
    wandb: Annotated[bool, Reaches("network", name="Weights & Biases")] = key(
        False, "Send metrics to Weights & Biases."
    )
    mlflow: Annotated[bool, Reaches("network", name="MLflow")] = key(False, "Send metrics to MLflow.")
    plot: bool = key(True, "Draw plots/learning.png when the run ends.")
    report: bool = key(
        True, "Write report/report.html when the run ends, in worlds that have a report, such as crypto."
    )
    video: bool = key(False, "Record a video of the agent when the run ends.")


# One section per learner, by its name in the registry.
LearnerSections: Any = create_model(
    "LearnerSections",
    __base__=ConfigTable,
    **{  # type: ignore[call-overload]
        name: (options, Field(default_factory=options, description=f"Options of {specs()[name].title}."))
        for name, options in option_classes().items()
    },
)


class RunConfig(LearnerSections):
    """The complete configuration of a run."""

    world: Annotated[str, Reaches("code", when_playing=True)] = Field(
        min_length=1,
        description="The env to train on: a Gymnasium id such as CartPole-v1, my_file.py:MyEnv, "
        f"{', or '.join(registry.names(plugins=False))}.",
    )
    world_options: Annotated[dict[str, Any], Reaches("code", "files", "network", when_playing=True)] = key(
        {}, "Keyword arguments of the world."
    )
    tables: Annotated[dict[str, Any], Inside("shapes and hashes, which are only compared")] = key(
        {}, "Shape and hash of each table of a kernel world, written by the run; resuming needs the same."
    )
    steps: int = key(
        100_000, "Number of steps to train for, counted over all envs; if only `episodes` is given, without limit.",
        gt=0,
    )  # fmt: skip
    episodes: Count | None = key(
        None, "Number of episodes to train for, counted over all envs; with `steps`, whichever comes first."
    )
    episode_length: Count | None = key(
        None, "Truncate episodes after this many steps; if omitted, the world's own limit."
    )
    seed: int = key(0, "The same seed and configuration give the same run.", ge=0, lt=SEEDS)

    num_envs: Count | Literal["auto", "adaptive"] = key(
        "auto", "Number of parallel envs; auto measures at the start, adaptive also during the run."
    )
    backend: Backend = key(
        "auto", "How the envs are stepped: serial, thread, process, kernel, cuda (a kernel world on a GPU, beside the "
        "learner), tensor (a vector env of another library that returns tensors), or auto, which measures.",
    )  # fmt: skip
    workers: int | None = key(None, "Number of workers that step the envs; if omitted, measured.", ge=1)
    start_method: Literal["spawn", "forkserver", "fork"] | None = key(
        None, "Start method of worker processes; if omitted, the fastest of the safe ones."
    )
    compiled: bool = key(True, "Use rookery's compiled version of the world if there is one.")
    groups: Literal[1, 2] | None = key(
        None, "With 2, half of the envs step while the policy acts for the other half; if omitted, chosen."
    )
    step_timeout: float | None = key(
        None, "Timeout of a step in seconds: then its worker is replaced, or a kernel world's step is stopped.", gt=0
    )
    on_failure: Literal["restart", "raise"] = key(
        "restart", "Restart an env that fails and continue, or end the run with its error."
    )
    max_restarts: int = key(10, "Restarts of one env allowed per minute; one more ends the run.", ge=0)
    bad_values: Literal["finite", "raise", "restart", "allow"] = key(
        "finite", "Values that an env may not return: finite refuses NaN and infinity, raise all values outside the "
        "space, restart does the same and restarts the env, allow refuses nothing.",
    )  # fmt: skip

    on_out_of_memory: Literal["raise", "lower"] = key(
        "raise", "When memory runs out: end the run with an error that names the two settings to lower, or lower one "
        "and continue from the latest checkpoint.",
    )  # fmt: skip

    learner: LearnerName = key("auto", "The learning algorithm; auto chooses by the action space.")
    learning_rate: float | None = key(
        None, "Learning rate of the chosen learner; short for ppo.learning_rate and so on.", gt=0
    )
    device: Annotated[str, Inside("its pattern")] = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="Device of the learner; auto uses a GPU if there is one and it is faster.",
        json_schema_extra=_valid('"auto", "cpu", "cuda", "cuda:N" (GPU number N) or "mps"'),
    )

    devices: Count | list[Annotated[int, Field(ge=0)]] = key(
        1, "GPUs that train together, each in a process with its share of the envs: how many, or a list of their "
        'numbers; with `device` = "cpu", processes. The numbers of a run are those of one process, to float '
        "tolerance. For ppo.", json_schema_extra=_valid("an integer >= 1 or a list of integers >= 0"),
    )  # fmt: skip

    init_from: Annotated[str | None, Reaches("files", "network", "code")] = key(
        None, "Begin with the weights and normalisers of another run: its name, its folder, latest, or a folder of "
        "its checkpoints. Learner and networks are the same; everything else may differ.",
        min_length=1, json_schema_extra=_valid("the name of a run, or the path of a run or a checkpoint"),
    )  # fmt: skip

    name: Annotated[str | None, Inside("its pattern")] = Field(
        None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=,@-]{0,99}$",
        description="Name of the run; if omitted, made of world, learner and seed.",
        json_schema_extra=_valid("a folder name of letters, digits and any of _ . + = , @ -"),
    )
    runs_dir: Annotated[str, Inside("a recorded run is where it was found")] = key(
        "runs", "Folder that contains one folder per run.", min_length=1
    )

    callbacks: Annotated[list[str], Reaches("code")] = Field(
        [],
        description="Classes derived from rookery.Callback that the run calls, such as my_file.py:MyCallback.",
        json_schema_extra=_valid(
            "a list of names such as my_file.py:MyCallback, or a string of them separated by commas"
        ),
    )
    wrappers: Annotated[list[str], Reaches("code", when_playing=True)] = Field(
        [],
        description="What each env is wrapped in, such as my_file.py:MyWrapper: Gymnasium wrappers, functions of an "
        "env, or reward functions.",
        json_schema_extra=_valid(
            "a list of names such as my_file.py:MyWrapper, or a string of them separated by commas"
        ),
    )

    image_size: Count | Sides | Literal["auto", "full"] = key(
        "auto", "Size to which images of the observation are shrunk, by area averages: one number for height and "
        "width, or both. auto shrinks images of more than 256 x 256 pixels to 84 x 84; full keeps all pixels.",
        json_schema_extra=_valid('"auto", "full", an integer >= 1 or a list of two'),
    )  # fmt: skip

    opponents: list[Opponent] = Field(
        [],
        description=f"Opponents of the agent: weak, strong, self, latest, archive, {registry.default_game().name}, a "
        "run or file.py:Agent. A phase can have its own.",
        json_schema_extra=_valid('a name such as "self" or "strong", or a list of names or tables'),
    )
    phases: list[Phase] = key(
        [], "Phases of the curriculum; each can change options of the world, opponents and rewards.",
        json_schema_extra=_valid("a list of tables, [[phases]] in TOML"),
    )  # fmt: skip
    reward_scale: float = key(1.0, "Factor by which rewards are multiplied for the learner.", gt=0)
    league: LeagueOptions = Field(default_factory=LeagueOptions, description="Archive of past agents to play against.")
    evaluation: EvaluationOptions = Field(
        default_factory=EvaluationOptions, description="Evaluation of the agent during a run."
    )
    checkpoints: CheckpointOptions = Field(
        default_factory=CheckpointOptions, description="Checkpoints, from which a run can be resumed."
    )
    monitor: MonitorOptions = Field(default_factory=MonitorOptions, description="Output of a run.")
    cluster: ClusterOptions = Field(
        default_factory=ClusterOptions, description="Where the envs step: here, or on a cluster."
    )
    search: SearchOptions = Field(
        default_factory=SearchOptions, description="What `rookery search` varies. A run does not read it."
    )

    @field_validator("callbacks", "wrappers", mode="before")
    @classmethod
    def _names_in_text(cls, value: Any) -> Any:
        return split_names(value)

    @field_validator("opponents", mode="before")
    @classmethod
    def _opponents_by_name(cls, value: Any) -> Any:
        return opponents_by_name(value)

    @property
    def learner_options(self) -> Any:
        """The section of the run's own learner, such as `ppo`."""
        return getattr(self, self.learner)

    @property
    def has_curriculum(self) -> bool:
        """Whether the run has phases, opponents or scaled rewards."""
        return bool(self.phases or self.opponents or self.reward_scale != 1.0)

    @property
    def all_phases(self) -> list[Phase]:
        """At least one phase; the run's opponents apply to phases without opponents."""
        phases = self.phases or [Phase()]
        return [
            phase if phase.opponents else phase.model_copy(update={"opponents": self.opponents}) for phase in phases
        ]

    @property
    def takes_compiled(self) -> bool:
        """Whether the compiled version may be used: not if other options ask for worker processes."""
        return (
            self.compiled
            and self.backend in ("auto", "kernel", "cuda")
            and self.num_envs != "adaptive"
            and self.step_timeout is None
            and not self.wrappers
        )

    @model_validator(mode="after")
    def check_together(self) -> RunConfig:
        """Refuse keys that contradict each other with a ValueError."""
        if self.num_envs == "adaptive":
            if self.groups == 2:
                raise ValueError('`groups` = 2 cannot be combined with `num_envs` = "adaptive": remove one of them')
            if self.backend not in ("auto", "process"):
                raise ValueError(
                    f'`num_envs` = "adaptive" needs `backend` = "process" or "auto", got {self.backend!r}; '
                    'with other backends give a number or "auto"'
                )
        if self.num_envs == 1 and self.groups == 2:
            raise ValueError("`groups` = 2 needs `num_envs` >= 2, got 1")
        fixed = isinstance(self.num_envs, int) and self.backend in ("process", "thread")
        if fixed and self.workers is not None and self.workers > self.num_envs:  # type: ignore[operator]
            raise ValueError(f"`workers` = {self.workers} should be <= `num_envs` = {self.num_envs}")
        if self.step_timeout is not None and self.backend not in ("auto", "process", "kernel"):
            raise ValueError(
                f'`step_timeout` needs `backend` = "process" or "kernel": {self.backend!r} cannot stop a step'
            )
        for number, phase in enumerate(self.phases[:-1], 1):
            if not phase.ends:
                raise ValueError(f"`phases`: phase {number} has no end: give it `episodes`, `steps` or `until`")
        if self.has_curriculum and self.num_envs == "adaptive":
            raise ValueError('`num_envs` = "adaptive" cannot be combined with `phases`, `opponents` or `reward_scale`')
        if self.name == "latest":
            raise ValueError("`name` cannot be 'latest', because that means the run that was started last")
        return self
