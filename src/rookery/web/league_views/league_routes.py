"""Routes of leagues: the list, a league, its ratings over time, and its matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import read_config
from rookery.web.dashboard_state import ALL_PLACES, DashboardState, json_answer, state_of
from rookery.web.league_views.league_ratings import rating_curves, training_view
from rookery.web.league_views.open_leagues import LeagueList, OpenLeague, OpenLeagues
from rookery.web.league_views.tournament_games import match_page, tournament_view
from rookery.web.run_folders import NotShown
from rookery.web.run_views.run_routes import run_index


def league_routes() -> list[BaseRoute]:
    """What the pages of leagues ask for."""
    one = "/api/leagues/{place}/{name}"
    return [
        Route("/api/leagues", leagues),
        Route(one, _answering(_league)),
        Route(f"{one}/ratings", _answering(lambda league, _: rating_curves(league.history, league.stored))),
        Route(f"{one}/matches", _answering(lambda league, asked: match_page(league.records, asked.query_params))),
    ]


async def leagues(request: Request) -> Response:
    """All leagues."""
    state = state_of(request)
    listed: LeagueList = state.part("league list", lambda: LeagueList(state.folders, run_index(state).row))
    return await json_answer(state, ALL_PLACES, lambda: {"leagues": listed.rows()})


def open_leagues(state: DashboardState) -> OpenLeagues:
    """The leagues that somebody looks at."""
    found: OpenLeagues = state.part("leagues", lambda: OpenLeagues(state.folders))
    return found


def _answering(answer: Callable[[OpenLeague, Request], Any]) -> Any:
    """An endpoint for one league: files are read in a thread."""

    async def endpoint(request: Request) -> Response:
        state, place, name = state_of(request), request.path_params["place"], request.path_params["name"]
        known, index = open_leagues(state), run_index(state)

        def made() -> Any:
            league = known.find(place, name)
            with league.lock:
                league.update(known.folders)
                found = answer(league, request)
            return {**found, "run": _run(index, place, name)} if answer is _league else found

        return await json_answer(state, place, made)

    return endpoint


def _run(index: Any, place: str, name: str) -> dict[str, Any] | None:
    """State and world of the run, if it is one."""
    try:
        row = index.row(place, name)
    except NotShown:
        return None
    return {"state": row["state"], "world": row["world"], "learner": row["learner"], "steps": row["steps"]}


def _league(league: OpenLeague, request: Request) -> dict[str, Any]:
    return {
        "id": f"{league.place}/{league.name}", "place": league.place, "name": league.name, "error": league.error,
        "training": training_view(league.history, league.stored, read_config(RunDir(league.folder))),
        "tournament": tournament_view(league.records, league.report, league.changed),
    }  # fmt: skip
