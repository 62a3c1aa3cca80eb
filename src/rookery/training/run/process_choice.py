"""The one place where it is decided whether a run has one process or several. Those of several are imported late."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.shared_run import RunAlone, device_names


def open_shared_run(run: ResolvedRun) -> AbstractContextManager[RunAlone]:
    """The other processes of a run, which end with it; of most runs there are none."""
    names = device_names(run.config)
    if len(names) == 1:
        return nullcontext(RunAlone())
    from rookery.training.run.rank_processes import start_processes

    return start_processes(names)
