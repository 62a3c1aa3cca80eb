"""The long-lived objects of this package, one of each for a dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rookery.web.dashboard_state import DashboardState
from rookery.web.live.rare_events import RareEventsOfRuns
from rookery.web.live.run_watcher import RunWatcher
from rookery.web.live.table_watcher import TableWatcher
from rookery.web.marks import marks_of
from rookery.web.place_threads import place_threads
from rookery.web.run_views.run_parts import run_index, table_changes


def run_watcher(state: DashboardState) -> RunWatcher:
    return _part(state, "run watcher", lambda: RunWatcher(place_threads(state)))


def table_watcher(state: DashboardState) -> TableWatcher:
    return _part(
        state,
        "table watcher",
        lambda: TableWatcher(
            state.folders, run_index(state), table_changes(state), marks_of(state), place_threads(state)
        ),
    )


def rare_events(state: DashboardState) -> RareEventsOfRuns:
    return _part(state, "rare events", RareEventsOfRuns)


def _part(state: DashboardState, name: str, make: Callable[[], Any]) -> Any:
    """Made on first use. Only the event loop asks, so that there is one of each."""
    if name not in state.parts:
        state.parts[name] = make()
    return state.parts[name]
