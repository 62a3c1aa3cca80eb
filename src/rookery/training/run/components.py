"""Makes what a run consists of from a `ResolvedRun`: engine, learner, evaluator, checkpoints, event sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rookery.config import RunConfig
from rookery.config.sections import leads
from rookery.console import compiling_if_needed, meanwhile, say, waiting
from rookery.engine.engine import Engine
from rookery.engine.env_factory import kernel_of
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import make_vec
from rookery.engine.wrapping import USUAL_SIZE
from rookery.errors import OptionError
from rookery.kernel.tables import check_same
from rookery.learners import registry
from rookery.learners.cpu_threads import threads_for
from rookery.learners.encoders import all_images_small
from rookery.learners.execution.choose import execution_of_run, plain_note
from rookery.learners.kernels.gpu.triton_support import hash_triton_early
from rookery.learners.learner import Learner
from rookery.learners.observations import leaves_of
from rookery.training.curriculum.curriculum import evaluation_opponents, make_curriculum_env
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.evaluation.evaluator import Evaluator
from rookery.training.resolve.engine_choice import MAX_ADAPTIVE_ENVS
from rookery.training.resolve.option_errors import explain_option_errors, failure_options
from rookery.training.resolve.resolved_run import ResolvedRun, evaluation_seed
from rookery.training.resolve.world_choice import World, check_learner
from rookery.training.run.adaptive_envs import Adaptation, AdaptiveNumEnvs, BackendReview
from rookery.training.run.callbacks import Callback
from rookery.training.run.out_of_memory import announce_size, check_memory, enough_memory, has_images, learner_size
from rookery.training.run.outputs import RunOutputs, open_outputs
from rookery.training.run.shared_run import RunAlone
from rookery.training.run.stop_request import StopRequest
from rookery.training.run.tensor_envs import make_tensor_engine, make_tensor_evaluator
from rookery.training.storage.load_agent import check_device, write_agent
from rookery.training.storage.run_dir import RunDir

if TYPE_CHECKING:
    from rookery.learners.execution.hindsight import OfGoals  # it imports Numba
    from rookery.learners.execution.ranks import Ranks  # it imports torch.distributed

MORE_EPISODES = 4  # times as many in an evaluation whose result is uncertain, unless the config says how many


@dataclass
class RunComponents:
    """The parts of a run that the loop works with."""

    envs: Engine | CurriculumVectorEnv
    learner: Learner
    evaluator: Any  # an `Evaluator`, or what stands for one that is elsewhere
    outputs: RunOutputs
    stop: StopRequest
    callbacks: Sequence[Callback]
    adaptation: Adaptation
    shared: RunAlone


@contextmanager
def open_components(
    run: ResolvedRun, folder: RunDir, engine: Engine, learner: Learner, resumed_at: int | None, **given: Any
) -> Iterator[RunComponents]:
    """All parts of a run, of which `stop`, `callbacks` and `shared` are given; those that are made are closed in the
    end."""
    config, adaptive = run.config, None
    if config.num_envs == "adaptive":
        adaptive = AdaptiveNumEnvs(MAX_ADAPTIVE_ENVS, folder.path / "num_envs.jsonl", resumed_at or -1)
    with (
        ExitStack() as opened,
        open_outputs(folder, config, learner) as outputs,
        closing(_evaluator_for(run, engine)) as evaluator,
    ):
        yield RunComponents(
            envs=make_curriculum_env(run, engine, learner, folder.path) if config.has_curriculum else engine,
            learner=learner,
            evaluator=evaluator,
            outputs=outputs,
            adaptation=Adaptation(_make_review(run, folder, learner, opened), adaptive),
            **given,
        )


def _make_review(run: ResolvedRun, folder: RunDir, learner: Learner, opened: ExitStack) -> BackendReview | None:
    """For a run whose backend was measured. An off-policy learner learns while envs step, so it needs none."""
    config = run.config
    if run.choice is None or not learner.on_policy or config.has_curriculum or learner.processes > 1:
        return None
    if config.cluster.kind != "local":
        return None

    def make_on(backend: str) -> Engine:
        workers = 1 if backend == "serial" else min(usable_cores(), run.num_envs)
        changed = run.with_config(backend=backend, workers=workers)
        engine = make_engine(changed)
        opened.callback(engine.close)
        folder.write_config(changed.config.model_dump(mode="json"))
        return engine

    return BackendReview(run.choice, make_on)


# --- the engine -------------------------------------------------------------------------------------------------------


@contextmanager
def open_engine(run: ResolvedRun) -> Iterator[Engine]:
    """The run's engine, closed in the end."""
    with _while_starting(run):
        engine = make_engine(run)
    try:
        yield engine
    finally:
        engine.close()


def _while_starting(run: ResolvedRun) -> AbstractContextManager[None]:
    """Tell that envs are being made, which may take minutes. With "fork", this process forks: without a thread."""
    if run.config.backend == "kernel":
        return nullcontext()
    what = f"starting {run.num_envs} env{'s' if run.num_envs > 1 else ''}"
    return meanwhile(what) if run.config.start_method == "fork" else waiting(what)


def make_engine(run: ResolvedRun) -> Engine:
    config = run.config
    if config.backend == "cuda":  # there, PPO's kernels are Triton's
        hash_triton_early()
    if config.backend == "tensor":
        return make_tensor_engine(run)
    with explain_option_errors(run.env_world):
        return make_vec(
            run.env_world.factory,
            run.num_envs,
            config.backend,
            config.workers,
            groups=config.groups or 1,
            start_method=config.start_method,
            autoreset_mode="SameStep",
            copy=False,
            device=config.device if config.backend == "cuda" else None,
            **failure_options(config),
        )


def with_tables(run: ResolvedRun, engine: Engine) -> ResolvedRun:
    """With shape and hash of the world's tables; refuses others than those that the run was begun with."""
    kernel = kernel_of(engine.source)
    facts = {} if kernel is None else kernel.world.table_facts
    if run.config.tables:
        check_same(engine.source.name, run.config.tables, facts)
    return run.with_config(tables=facts)


# --- the learner ------------------------------------------------------------------------------------------------------


def fit_learner(run: ResolvedRun) -> ResolvedRun:
    """A new run whose learner was found to fit its spaces and the machine, with the device to compute on."""
    seat, config = run.seat, run.config
    assert seat is not None
    check_learner(config.learner, seat.action_space, seat.observation_space)
    check_device(config.device)
    if config.backend == "cuda":
        run = run.with_config(device=device_of_envs(config))
    elif config.device == "auto":
        # A GPU pays for images; for vectors the nets are so small that a CPU is as quick.
        images = has_images(seat.observation_space) and torch.cuda.is_available()
        run = run.with_config(device="cuda" if images else "cpu")
    run = _with_image_network(run)
    _check_memory(run)
    spaces, options = (seat.observation_space, seat.action_space), run.config.learner_options
    folder = Path(config.checkpoints.dir or config.runs_dir)
    announce_size(config.learner, spaces, options, run.num_rows, folder, config.checkpoints.keep)
    return run


def _with_image_network(run: ResolvedRun) -> ResolvedRun:
    """With the way in which images are read, so that the run's checkpoints record it."""
    name, seat = run.config.learner, run.seat
    assert seat is not None
    options = run.config.learner_options
    if options.images != "auto" or not has_images(seat.observation_space):
        return run
    leaves = leaves_of(seat.observation_space)
    flat = "levels" if any(leaf.levels for leaf in leaves) else "flat"
    images = flat if all_images_small(leaves) else "cnn"
    return run.with_config(**{name: options.model_copy(update={"images": images})})


def _check_memory(run: ResolvedRun) -> None:
    seat, config = run.seat, run.config
    assert seat is not None
    check_memory(config, seat.observation_space, seat.action_space, run.num_rows)


def with_image_size(run: ResolvedRun, engine: Engine) -> ResolvedRun:
    """With the size of images that the run's envs have; a notice says if they were shrunk without a request."""
    name = run.config.learner
    tensors = engine.backend in ("cuda", "tensor")  # images on a GPU stay as they are
    full = None if tensors else engine.description.full_size
    if full is not None and run.config.image_size == "auto":
        size = learner_size(name, full, engine.single_action_space, run.config.learner_options, run.num_rows)
        shapes = [" x ".join(map(str, leaf.shape)) for leaf in leaves_of(full) if leaf.kind == "image"]
        say(
            f"images of {' and '.join(shapes)} are shrunk to {USUAL_SIZE[0]} x {USUAL_SIZE[1]}: at full size {name} "
            f"would have {size}; --set image_size=full keeps every pixel"
        )
    return run.with_image_size(full)


def device_of_envs(config: RunConfig) -> str:
    """The device of a learner whose envs are on a GPU: the same one."""
    if config.device == "mps":
        raise OptionError('`backend` = "cuda" needs the learner on the same GPU: `device` = "cuda", got "mps"')
    return "cuda" if config.device == "auto" else config.device


def make_learner(run: ResolvedRun, ranks: Ranks | None = None) -> Learner:
    """The learner of a run; with `ranks`, the part of it that this process has."""
    seat, config = run.seat, run.config
    assert seat is not None
    name, options = config.learner, config.learner_options
    spaces = seat.observation_space, seat.action_space
    _check_memory(run)
    rows, device = run.num_rows, config.device
    if ranks is not None:
        from rookery.learners.execution.shared import envs_of_each

        rows, device = envs_of_each(rows, ranks), str(ranks.device)
    corrected = config.cluster.asynchronous and name == "ppo"
    execution = execution_of_run(corrected=corrected, leads=leads(config.cluster), ranks=ranks)
    with enough_memory(name):
        learner: Learner = registry.make_learner(
            name, *spaces, options, rows, config.seed, device, **({} if execution is None else {"execution": execution})
        )
    if getattr(options, "hindsight", 0):
        learner.hindsight.compute_reward, learner.hindsight.compute_terminated = goal_functions(run.env_world)
    if note := plain_note(learner):
        say(note)
    agent = learner.agent
    agent.deterministic, agent.writer = config.evaluation.deterministic, write_agent
    agent.learner, agent.world = name, config.world
    return learner


def goal_functions(world: World) -> tuple[OfGoals, OfGoals | None]:
    """`compute_reward` of a world with goals, as Gymnasium-Robotics' envs have it, and `compute_terminated` if it has
    one: of a kernel world's class, or of an env that is made for it."""
    owner: Any = world.kernel_world
    if owner is None:
        with explain_option_errors(world):
            owner = world.factory.make(0).unwrapped
    if not callable(getattr(owner, "compute_reward", None)):
        raise OptionError(f"`hindsight` needs a world with `compute_reward`, and {world.name} has none")
    return owner.compute_reward, getattr(owner, "compute_terminated", None)


def with_threads(run: ResolvedRun, learner: Learner) -> ResolvedRun:
    """With the number of threads that suits the learner's nets on this machine."""
    config, options = run.config, learner.options
    if config.device == "cpu" and options.threads is None:
        # Of the processes of a cluster without an address, all learn on this machine.
        learning = learner.processes if config.cluster.address else max(learner.processes, config.cluster.learners)
        with enough_memory(config.learner), compiling_if_needed("the learner"):
            threads = threads_for(learner, config.learner, max(1, usable_cores() // learning))
        options = options.model_copy(update={"threads": threads})
    if options.threads is not None:
        learner.use_threads(options.threads)
    return run.with_config(**{config.learner: options})


# --- evaluations ------------------------------------------------------------------------------------------------------


def _evaluator_for(run: ResolvedRun, engine: Any) -> Any:
    """The evaluator of a run; that of a cluster may be elsewhere."""
    return engine.make_evaluator(run) if run.config.cluster.evaluate_apart else make_evaluator(run)


def make_evaluator(run: ResolvedRun) -> Evaluator:
    config, options = run.config, run.config.evaluation
    if config.backend == "tensor":
        return make_tensor_evaluator(run)
    return Evaluator(
        run.world,
        "kernel" if config.backend == "cuda" else config.backend,
        options.episodes,
        evaluation_seed(config),
        options.deterministic,
        evaluation_opponents(run),
        Path(config.runs_dir),
        max_episodes=options.max_episodes or MORE_EPISODES * options.episodes,
        num_envs=run.num_envs,
        workers=config.workers,
        device=config.device if config.backend == "cuda" and run.world.kernel else None,
        start_method=config.start_method,
        **failure_options(config),
    )
