"""The first events of a run: what it is, and notes about choices that may surprise."""

from __future__ import annotations

from rookery.config import RunConfig
from rookery.engine.machine import usable_cores
from rookery.learners.learner import Learner
from rookery.learners.registry import option_classes
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.seats import NO_STEP_LIMIT
from rookery.training.run.loop import Loop
from rookery.training.storage.run_dir import RunDir

FEW_UPDATES = 10


def announce(loop: Loop, run: ResolvedRun, folder: RunDir, step: int | None, changed: str) -> None:
    """Write the event `start` and the notes. A resumed run has the `step` of its checkpoint; `changed` says which keys
    of its config are different since then."""
    config, engine, learner, event = run.config, loop.state.engine, loop.learner, loop.outputs.event
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
        "threads": config.learner_options.threads,
        **(engine.facts() if hasattr(engine, "facts") else {}),  # of a cluster
    }
    event("start", step or 0, **facts)
    over = step is not None and step >= config.steps
    notes = [run.world.note if step is None else "", changed, "" if over else _few_updates(config, learner)]
    notes += [_two_lengths(config), _guide_note(config), *(unread_options(run, engine.backend) if step is None else ())]
    for text in filter(None, notes):
        event("note", step or 0, text=text)


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


MOST_NAMED = 4


def unread_options(run: ResolvedRun, backend: str) -> list[str]:
    """One sentence for each kind of them; `backend` is the one that steps the envs."""
    notes = [_of_other_learners(run.config), _start_method(run, backend), *_of_cluster(run)]
    return [note for note in notes if note]


def _of_other_learners(config: RunConfig) -> str:
    """A value that the run's own learner has as well was given for all of them, as `learning_rate` is."""
    own = config.learner_options
    names = []
    for learner in option_classes():
        options = getattr(config, learner)
        for name in sorted(options.model_fields_set) if learner != config.learner else ():
            value = getattr(options, name)
            if value not in (type(options).model_fields[name].default, getattr(own, name, None)):
                names.append(f"`{learner}.{name}`")
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    verb = "has" if len(names) == 1 else "have"
    return f"the learner is {config.learner}: {', '.join(names[:MOST_NAMED])}{more} {verb} no effect"


def _start_method(run: ResolvedRun, backend: str) -> str:
    """A backend that was chosen by measuring may change to processes during the run."""
    method = run.config.start_method
    if method is None or backend == "process" or run.choice is not None:
        return ""
    return f"`start_method` = {method!r} has no effect: the backend {backend} steps the envs without worker processes"


def _of_cluster(run: ResolvedRun) -> list[str]:
    cluster, notes = run.config.cluster, []
    if cluster.kind == "local":
        return []
    if cluster.nodes is not None and cluster.nodes > run.num_envs:
        notes.append(f"`cluster.nodes` = {cluster.nodes}, but {run.num_envs} envs make {run.num_envs} collectors")
    if cluster.asynchronous and run.config.learner != "ppo":
        notes.append(
            f"`cluster.asynchronous` has no effect: collectors of {run.config.learner} never wait for the learner"
        )
    return notes
