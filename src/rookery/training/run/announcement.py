"""The first events of a run: what it is, and notes about choices that may surprise."""

from __future__ import annotations

from rookery.config import RunConfig
from rookery.engine.engine import Engine
from rookery.engine.machine import usable_cores
from rookery.learners.learner import Learner
from rookery.monitor.events import Event, Sinks
from rookery.training.resolve.curriculum_config import NO_STEP_LIMIT
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.unread_options import unread_options
from rookery.training.storage.run_dir import RunDir

FEW_UPDATES = 10


def announce(
    sinks: Sinks, run: ResolvedRun, folder: RunDir, engine: Engine, learner: Learner, step: int | None, changed: str
) -> None:
    """Write the event `start` and the notes. A resumed run has the `step` of its checkpoint; `changed` says which keys
    of its config are different since then."""
    config = run.config
    facts = {
        "run": folder.name,
        "path": str(folder.path),
        "world": run.world.name,
        "learner": config.learner,
        "num_envs": engine.num_envs * learner.processes,
        "backend": engine.backend,
        "workers": config.workers,
        "start_method": getattr(engine, "start_method", None),
        "device": config.device,
        "steps": config.steps if config.steps < NO_STEP_LIMIT else None,
        "episodes": config.episodes,
        "seed": config.seed,
        "resumed_from": step,
        "groups": config.groups,
        "cores": usable_cores(),
        "threads": getattr(config, config.learner).threads,
        **(engine.facts() if hasattr(engine, "facts") else {}),  # of a cluster
    }
    sinks.write(Event("start", step or 0, facts))
    over = step is not None and step >= config.steps
    notes = [run.world.note if step is None else "", changed, "" if over else _few_updates(config, learner)]
    notes += [_two_lengths(config), _guide_note(config), *(unread_options(run, engine.backend) if step is None else ())]
    for text in filter(None, notes):
        sinks.write(Event("note", step or 0, {"text": text}))


def _two_lengths(config: RunConfig) -> str:
    if config.episodes is None or config.steps >= NO_STEP_LIMIT:
        return ""
    return f"the run ends after {config.episodes:,} episodes or {config.steps:,} steps, whichever comes first"


def _guide_note(config: RunConfig) -> str:
    """A note for a run whose numbers depend on when a guide answers."""
    guide = config.world_options.get("guide")
    if not isinstance(guide, str) or guide.endswith(".jsonl"):
        return ""
    return (
        "hints count from when the guide answers, so the same seed gives other numbers: hints.jsonl in the run's "
        "folder, given as --guide, repeats this run exactly"
    )


def _few_updates(config: RunConfig, learner: Learner) -> str:
    """A note for a run that ends before it has made many updates."""
    if not learner.on_policy:
        return ""
    length = learner.steps_until_update
    each = learner.num_envs * learner.processes * length
    if config.steps >= FEW_UPDATES * each:
        return ""
    return (
        f"an update takes {each:,} steps ({learner.num_envs} envs x {length}), so there will be few "
        "in this run: more --steps, or fewer --num-envs, would help"
    )
