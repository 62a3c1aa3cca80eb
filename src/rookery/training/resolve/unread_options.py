"""Notes about options that were given and have no effect in a run. No mistakes: a file may be for several runs."""

from __future__ import annotations

from rookery.config import RunConfig
from rookery.learners.registry import option_classes
from rookery.training.resolve.resolved_run import ResolvedRun

MOST_NAMED = 4


def unread_options(run: ResolvedRun, backend: str) -> list[str]:
    """One sentence for each kind of them; `backend` is the one that steps the envs."""
    notes = [_of_other_learners(run.config), _start_method(run, backend), *_of_cluster(run)]
    return [note for note in notes if note]


def _of_other_learners(config: RunConfig) -> str:
    """A value that the run's own learner has as well was given for all of them, as `learning_rate` is."""
    own = getattr(config, config.learner)
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
