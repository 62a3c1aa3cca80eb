"""`train` and `resume`: from a configuration to a finished run."""

from __future__ import annotations

import re
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from rookery.config import RunConfig, gather, gather_changes, resumed_config
from rookery.console import printable, say
from rookery.engine.engine import Engine
from rookery.engine.env_factory import being_imported
from rookery.engine.machine import usable_cores
from rookery.errors import CheckpointError, ConfigError, RookeryError, UsageError
from rookery.learners.cpu_threads import keep_memory
from rookery.learners.learner import Learner
from rookery.monitor.events import Event, Sinks
from rookery.training.curriculum.setup_curriculum import UNCOUNTED, anchored, make_course, world_for
from rookery.training.resolve.world_choice import World, find_again, spell
from rookery.training.run.adaptive_envs import Adaptive
from rookery.training.run.loop import Loop, RunComponents
from rookery.training.run.result import Result
from rookery.training.run.setup import (
    check_device,
    learner_for,
    make_evaluator,
    open_engine,
    planned,
    settle,
    with_tables,
    with_threads,
)
from rookery.training.run.sinks import open_sinks
from rookery.training.run.stop_request import StopRequest
from rookery.training.run.wrap_up import wrap_up
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.load_agent import check_agent
from rookery.training.storage.malformed import MALFORMED, told
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run, remember

FEW_UPDATES = 10
MOST_ENVS = 256  # that adaptive tries


def train(what: Any, **options: Any) -> Result:
    """Train an agent and return how it went, with the agent.

    Args:
        what: A world (a Gymnasium id, "file.py:MyEnv", or a class or function at the top of a file), the path of a
            configuration, or one as a dict.
        options: Keys of the configuration (`rookery train --help-config` lists them), such as `num_envs=8`,
            `device="cuda"`, `steps=20_000` or `ppo={"clip": 0.1}`.

    Example:
        >>> import contextlib, io, rookery, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        ...     result = rookery.train("CartPole-v1", steps=1_024, runs_dir=folder)
        >>> result.total_steps
        1024
        >>> result.agent.act([[0.0, 0.0, 0.0, 0.0]], deterministic=True).shape
        (1,)
    """
    _refuse_while_imported("train")
    actual = None if isinstance(what, (str, dict, Path)) else what
    given = gather(what if actual is None else spell(actual), **options)
    config, world = settle(given, actual)
    keep_memory()
    with StopRequest() as stop:
        config = planned(config, world_for(config, world))
        with open_engine(config, world_for(config, world)) as envs:
            checkpoint_dir = Path(config.checkpoints.dir) if config.checkpoints.dir else None
            run = RunDir.create(Path(config.runs_dir), config.name or _name(config, world), checkpoint_dir)
            with run.lock():
                return _work(run, config, world, envs, stop)


def resume(
    run: str | Path, runs_dir: str | Path = "runs", *, steps: int | None = None, trust: bool = False, **options: Any
) -> Result:
    """Continue a run from its latest checkpoint, by its name, its path or as "latest"; to `steps` in all, if given.

    Other keys that the checkpoint does not depend on can be changed too, such as `evaluation={"every": 10_000}`; they
    are written into the run's configuration. All others are refused with a ConfigError.

    A run that would run code, or write outside of its folder, and was not started here by this user is only continued
    after a question on the terminal, or with `trust`.
    """
    _refuse_while_imported("resume")
    found = RunDir.find(run, Path(runs_dir))
    changes = gather_changes(**options, steps=steps)
    found.refuse_links()
    keep_memory()
    with found.lock(), StopRequest() as stop:
        recorded = found.read_config()
        config, changed = resumed_config(recorded, changes)
        if config.learner == "auto":
            raise ConfigError(f"{printable(found.config)}: `learner` should be who has learned: ppo, sac or dqn")
        check_device(config.device)
        check_run(found, resumed_config(recorded, {})[0], trust)  # what was named just now is the user's own
        config = config.model_copy(update=anchored(config))
        world = find_again(config)
        saved = _latest(found, config)
        config = planned(config, world_for(config, world), saved)
        with open_engine(config, world_for(config, world), saved) as envs:
            return _work(found, config, world, envs, stop, saved, changed)


def _refuse_while_imported(name: str) -> None:
    """A script that trains on its own class is imported to find that class again, and must not train then."""
    file = being_imported()
    if file is not None:
        raise UsageError(
            f"rookery.{name}() was called while {file} is imported for the world in it; "
            "put the call under `if __name__ == '__main__':`"
        )


def _name(config: RunConfig, world: World) -> str:
    suffix = f"_vec{config.num_envs}" if isinstance(config.num_envs, int) else ""
    title = re.sub(r"[^A-Za-z0-9_.+=,@-]+|[.]{2,}", "-", world.name).strip("-.")[:60]  # a file may be called anything
    return f"{title or 'world'}-{config.learner}-s{config.seed}{suffix}"


def _work(
    run: RunDir, config: RunConfig, world: World, envs: Engine, stop: StopRequest, saved: Any = None, changed: str = ""
) -> Result:
    """Bring everyone together, and run. `changed` tells what is different from when the run was last at work."""
    place = world_for(config, world)
    learner = learner_for(config, place, envs)
    learner.agent.deterministic = config.evaluation.deterministic
    config = with_tables(with_threads(config, learner), envs)
    run.write_config(config.model_dump(mode="json"))
    if run.id is None:
        run.remember(id=uuid.uuid4().hex)
    remember(run, config)
    checkpoints = Checkpoints(run.checkpoints, config.checkpoints.keep, run.id, own=not run.keeps_checkpoints_outside)
    step = saved["loop"]["steps"] if saved else None
    changes = run.path / "num_envs.jsonl"
    adaptive = Adaptive(MOST_ENVS, changes, step or -1) if config.num_envs == "adaptive" else None
    with open_sinks(run, config) as sinks, closing(make_evaluator(config, world)) as evaluator:
        led = make_course(config, place, envs, learner, run.path) if config.has_curriculum else envs
        loop = Loop(config, RunComponents(led, learner, evaluator, checkpoints, sinks, stop, adaptive))
        _announce(sinks, run, config, world, envs, learner, step, changed)
        observations, infos = _taken_up(loop, saved) if saved else loop.begin()
        return wrap_up(run, config, world, loop, lambda: loop.run(observations, infos))


def _taken_up(loop: Loop, saved: Any) -> tuple[Any, dict[str, Any]]:
    """Go on from a checkpoint. What is whole but was not written by rookery may fail in any way."""
    try:
        return loop.load(saved)
    except RookeryError:
        raise
    except MALFORMED as error:
        if getattr(error, "__notes__", None):  # of the user's env
            raise
        raise CheckpointError(f"the checkpoint cannot be gone on from: {told(error)}") from error


def _latest(run: RunDir, config: RunConfig) -> Any:
    """The latest checkpoint, with the metrics taken back to it; None to begin anew."""
    checkpoints = Checkpoints(run.checkpoints, config.checkpoints.keep)
    if checkpoints.latest() is None:
        say(f"{run.name} has no checkpoint yet; beginning anew")
        run.truncate_after(-1)
        return None
    step, saved = checkpoints.load_latest(check=partial(_check_nets, config))
    run.truncate_after(step)
    if step >= config.steps:
        say(
            f"{run.name} has made {step:,} steps, and {config.steps:,} are asked for; with more of them (--steps N) it "
            "goes on"
        )
    return saved


def _check_nets(config: RunConfig, saved: Any) -> None:
    """Refuse a checkpoint whose nets are others than the config asks for, before those are made."""
    agent, loop = saved.get("agent"), saved.get("loop")
    check_agent(agent)
    if config.learner != agent["learner"] or getattr(config, config.learner).hidden != agent["options"]["hidden"]:
        raise CheckpointError(f"a checkpoint's agent, of {agent['learner']}, has other nets than the run's config")
    steps = loop.get("steps") if isinstance(loop, dict) else None
    if type(steps) is not int or not 0 <= steps < UNCOUNTED:
        raise CheckpointError(f"a checkpoint tells of {steps!r:.40} steps, which no run can have made")
    num_envs = loop.get("num_envs")
    if config.num_envs == "adaptive" and (type(num_envs) is not int or not 1 <= num_envs <= MOST_ENVS):
        raise CheckpointError(f"a checkpoint tells of {num_envs!r:.40} envs, and adaptive runs have up to {MOST_ENVS}")


def _announce(
    sinks: Sinks,
    run: RunDir,
    config: RunConfig,
    world: World,
    envs: Engine,
    learner: Learner,
    step: int | None,
    changed: str,
) -> None:
    facts = {
        "run": run.name,
        "path": str(run.path),
        "world": world.name,
        "learner": config.learner,
        "num_envs": envs.num_envs,
        "backend": envs.backend,
        "workers": config.workers,
        "device": config.device,
        "steps": config.steps if config.steps < UNCOUNTED else None,
        "seed": config.seed,
        "resumed_from": step,
        "groups": config.groups,
        "cores": usable_cores(),
        "threads": getattr(config, config.learner).threads,
    }
    sinks.write(Event("start", step or 0, facts))
    over = step is not None and step >= config.steps
    notes = [world.note if step is None else "", changed, "" if over else _few_updates(config, learner)]
    for text in filter(None, notes):
        sinks.write(Event("note", step or 0, {"text": text}))


def _few_updates(config: RunConfig, learner: Learner) -> str:
    """A word about a run that is over before it has learned much."""
    if not learner.on_policy:
        return ""
    length = learner.steps_until_update
    each = learner.num_envs * length
    if config.steps >= FEW_UPDATES * each:
        return ""
    return (
        f"an update takes {each:,} steps ({learner.num_envs} envs x {length}), so there will be few "
        "in this run: more --steps, or fewer --num-envs, would help"
    )
