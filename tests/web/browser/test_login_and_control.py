"""In a browser: the login by a token, and changes of a run from its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.web.dashboard_server import DashboardServer

TOKEN = "a-token-of-good-length"
RUN = "/runs/runs/cartpole_seed1"


def test_the_page_asks_for_the_token_once(runs: Path, page: Any) -> None:
    with DashboardServer([runs], port=0, token=TOKEN) as server:
        page.goto(f"{server.url}{RUN}?token=wrong")
        page.get_by_text("This token is wrong.").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="cartpole_seed1").wait_for()
        assert page.url == f"{server.url}{RUN}"
        (cookie,) = page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and TOKEN not in cookie["value"]
        assert page.evaluate("document.cookie") == ""
        page.goto("about:blank")
    told = [text for text in page.problems if "401" in text]
    assert len(told) == 1  # the page of the login itself
    page.problems.remove(told[0])


def test_tags_and_hidden_runs(runs: Path, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOKERY_STATE", str(tmp_path / "state"))
    with DashboardServer([runs], port=0, allow_control=True) as server:
        port = int(server.url.rpartition(":")[2])
        page.goto(f"{server.url}{RUN}")
        save_tags(page, "<b>good</b>, paper")
    with DashboardServer([runs], port=port, allow_control=True) as server:  # with another CSRF token
        save_tags(page, "better")
        page.get_by_role("button", name="Hide from the table").click()
        page.get_by_text("Done.").wait_for()
        row = next(row for row in page.request.get(f"{server.url}/api/runs").json()["runs"] if row["id"] == RUN[6:])
        assert row["tags"] == ["better"] and row["hidden"] is True
        page.goto("about:blank")
    told = [text for text in page.problems if "ERR_" not in text]  # which is while there was no server
    assert len(told) == 1 and "403" in told[0]  # the old CSRF token, once
    page.problems.clear()


def test_without_permission_there_are_no_buttons(dashboard: DashboardServer, page: Any) -> None:
    page.goto(f"{dashboard.url}{RUN}")
    page.get_by_role("heading", name="cartpole_seed1").wait_for()
    page.get_by_role("tab", name="Overview").wait_for()
    assert page.get_by_role("button", name="Resume", exact=True).count() == 0
    assert page.get_by_role("textbox", name="Tags").count() == 0


def save_tags(page: Any, text: str) -> None:
    page.get_by_role("textbox", name="Tags").fill(text)
    page.get_by_role("button", name="Save tags").click()
    page.get_by_text("Tags are saved.").wait_for()
