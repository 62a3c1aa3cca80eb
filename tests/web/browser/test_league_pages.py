"""The pages of leagues in a browser: ratings, win matrix and matches, as they come, and a match that is seen again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from rookery.web.dashboard_server import DashboardServer
from rookery.web.play import play_routes
from web.leagues.recorded_league import LEAGUE, RECORDED

COMPLETE = "main[data-complete]"
NAME = "<img src=x onerror=document.title='caught'>"
BAD = ("serious", "critical")
PAGE = f"/leagues/runs/{LEAGUE}"
# A session that loads no agents: it says which match was requested, and ends as that did.
SESSION = """
import sys
from rookery.engine.workers.child_process import die_with_parent
die_with_parent(int(sys.argv.pop(1)))
import socket
from rookery.web.play.play_request import ReplayRequest
from rookery.web.play.session_main import SessionChannel
from rookery.web.play.session_main import PlayLoop
request = ReplayRequest.from_json(sys.argv[2])
channel = SessionChannel(socket.socket(fileno=int(sys.argv[1])))
names = [player["name"] for player in request.players]
class Session:
    fps, deterministic, steps = 50.0, True, 0
    def step(self): self.steps = min(request.length, self.steps + 1)
    def restart(self, seed): self.steps = 0
    def frame(self, detailed):
        ended = self.steps == request.length
        return {"episode": 1, "steps": self.steps, "return": 0, "playing": not ended, "outcomes": {}, "seed": 1,
            "deterministic": True, "as_recorded": True if ended else None, "hockey": {"x": [2, 8, 5], "y": [4, 4, 4],
            "angle": [0, 0, 0], "vx": 9, "vy": 3, "hold": [0, 5], "winner": 0, "steps": 1, "limit": 250}}, None
channel.send({"kind": "ready", "view": "hockey", "world": "hockey", "fps": 50, "seed": 1, "names": names,
    "human": False, "envs": 1, "tiles": None, "match": {"number": request.number, "players": names,
    "winner": names[0] if request.winner > 0 else names[1], "length": request.length}})
loop = PlayLoop(Session(), None, channel)
while True:
    loop.turn()
"""


@pytest.fixture(autouse=True)
def quick_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_routes, "CODE", SESSION)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "runs"))


@pytest.fixture
def dashboard(runs: Path) -> Iterator[DashboardServer]:
    with DashboardServer([runs], port=0) as server:
        yield server


def test_from_the_list_to_a_match(dashboard: DashboardServer, page: Any) -> None:
    """A cell of the win matrix lists its matches; the link of one opens the session of this match."""
    page.goto(f"{dashboard.url}/leagues")
    page.get_by_role("link", name=LEAGUE).click()
    page.wait_for_selector(COMPLETE)
    assert page.locator(".win-matrix tbody tr").count() == 7
    assert page.locator(".chart canvas").count() == 2
    page.get_by_title("strong against random: 5 won, 1 drawn, 0 lost").click()
    page.get_by_text("1 to 6 of 6").wait_for()
    page.get_by_label("Result").select_option("won")
    page.get_by_text("1 to 5 of 5").wait_for()
    page.wait_for_url("**result=won**")
    page.reload()
    page.get_by_text("1 to 5 of 5").wait_for()
    page.get_by_role("link", name="Replay match 2 of strong against random").click()
    page.get_by_text("strong won it, after 41 steps").wait_for()
    page.get_by_text("The replay has ended as the match did.").wait_for()
    page.get_by_role("button", name="From the beginning").click()
    page.get_by_text("It is played again, with the same seed").wait_for()
    assert page.get_by_label("Seed").count() == 0
    page.get_by_role("link", name=f"League of {LEAGUE}").click()
    page.wait_for_selector(COMPLETE)


def test_matches_are_turned_page_by_page(dashboard: DashboardServer, page: Any) -> None:
    page.goto(dashboard.url + PAGE)
    page.get_by_text("1 to 50 of 126").wait_for()
    page.get_by_role("button", name="Older").click()
    page.get_by_text("51 to 100 of 126").wait_for()
    page.get_by_role("button", name="Newer").click()
    page.get_by_text("1 to 50 of 126").wait_for()
    page.get_by_role("region", name="Players of the tournament").get_by_role("button", name="Lost").click()
    first = page.get_by_role("region", name="Players of the tournament").locator("tbody th").first
    assert first.inner_text() == "random"


@pytest.mark.slow
def test_games_appear_as_they_are_played(dashboard: DashboardServer, page: Any, runs: Path) -> None:
    """A tournament begins while somebody looks; names are text."""
    league = runs / LEAGUE / "league"
    head, *rest = (league / "games.jsonl").read_text().splitlines(keepends=True)
    (league / "tournament.json").unlink()
    (league / "games.jsonl").unlink()
    page.goto(dashboard.url + PAGE)
    page.get_by_text("No tournament has been played.").wait_for()
    known = json.loads(head)
    known["players"][0]["name"] = NAME
    (league / "games.jsonl").write_text(json.dumps(known) + "\n" + rest[0])
    page.get_by_text("6 of 126").wait_for()
    page.get_by_text(NAME).first.wait_for()
    with (league / "games.jsonl").open("a") as file:
        file.write("".join(rest[1:]))
    page.get_by_text("1 to 50 of 126").wait_for()
    assert page.title() != "caught" and page.locator("img[src=x]").count() == 0


def test_the_name_of_a_league_is_text(dashboard: DashboardServer, page: Any, runs: Path) -> None:
    (runs / LEAGUE).rename(runs / NAME)
    page.goto(f"{dashboard.url}/leagues")
    page.get_by_role("link", name=NAME).click()
    page.wait_for_selector(COMPLETE)
    page.get_by_role("heading", name=NAME).wait_for()
    assert page.title() != "caught" and page.locator("img[src=x]").count() == 0


@pytest.mark.diagonal
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_kept_out_of_a_league(dashboard: DashboardServer, new_page: Any, width: int, dark: bool) -> None:
    page = new_page(width=width, dark=dark)
    for path, there in (("/leagues", ".data-table tbody tr:not(.gap)"), (PAGE, COMPLETE)):
        page.goto(dashboard.url + path)
        page.wait_for_selector(there)
        page.wait_for_timeout(200)
        found = Axe().run(page).response["violations"]
        serious = [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in BAD]
        assert not serious, "\n".join(serious)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
