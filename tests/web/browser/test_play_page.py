"""The page of a playing agent in a browser: it draws, follows its buttons and keys, and says why it cannot."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from rookery.web.dashboard_server import DashboardServer
from rookery.web.play import play_routes

# A session that loads no agent: its puck moves, its racket follows the keys.
SESSION = """
import sys
from rookery.engine.workers.child_process import die_with_parent
die_with_parent(int(sys.argv.pop(1)))
import json, socket
import numpy as np
from rookery.web.play.play_request import KeyboardPlayer
from rookery.web.play.session_main import SessionChannel
from rookery.web.play.session_main import PlayLoop
request, keyboard = json.loads(sys.argv[2]), KeyboardPlayer()
channel = SessionChannel(socket.socket(fileno=int(sys.argv[1])))
if request["opponent"] == "weak":
    channel.send({"kind": "error", "error": "<b>no</b> agent"})
    sys.exit(1)
tiles = None
if request["opponent"] == "none":
    from rookery.web.play.frame_contents import FrameImages
    images = FrameImages(4, np.zeros((144, 160, 3), np.uint8))
    tiles = images.describe()
class Session:
    fps, deterministic, seed, steps, x = 50.0, True, 3, 0, 8.0
    def step(self):
        self.steps += 1
        self.x -= 0.02 * float(keyboard.act(None, None)[0, 0])
    def restart(self, seed): self.seed, self.steps = seed, 0
    def frame(self, detailed):
        frame = {"episode": 1, "steps": self.steps, "return": 1.5, "playing": True, "outcomes": {"won": 2},
            "deterministic": self.deterministic, "seed": self.seed, "keys": keyboard.sequence, "details": {
            "observation": [{"name": "", "shape": [2], "values": [0.5, -1]}], "action": 1, "value": 2.5,
            "probabilities": [[0.25, 0.75]]}}
        if tiles:
            cells = [{"return": 0, "steps": 1, "playing": k > 0, "episodes": 1, "outcome": "won"} for k in range(4)]
            screens = [np.full((144, 160, 3), 60 * k, np.uint8) for k in range(4)]
            return {**frame, "cells": cells}, images.encode(screens)
        return {**frame, "hockey": {"x": [2, self.x, 5], "y": [4, 4, 4], "angle": [0, 0, 0], "vx": 9, "vy": 3,
            "hold": [0, 5], "winner": 0, "steps": self.steps, "limit": 250}}, None
channel.send({"kind": "ready", "view": "frames" if tiles else "hockey", "world": "hockey", "fps": 50, "seed": 3,
    "names": ["agent", "you"], "human": request["opponent"] == "human", "envs": 1, "tiles": tiles})
loop = PlayLoop(Session(), keyboard, channel)
while True:
    loop.turn()
"""


@pytest.fixture(autouse=True)
def quick_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_routes, "CODE", SESSION)


def until(true: Callable[[], bool]) -> None:
    """Wait; a page's own rules do not let Playwright evaluate text in it again and again."""
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def steps(page: Any) -> int:
    """The steps that the page shows; -1 before the first frame."""
    shown = page.locator(".play-side .number-box b")
    text = shown.nth(1).inner_text() if shown.count() else ""
    return int(text) if text.isdecimal() else -1


def playing(page: Any, dashboard: DashboardServer, opponent: str) -> None:
    page.goto(f"{dashboard.url}/play?agent=hockey&opponent={opponent}")
    until(lambda: steps(page) > 3)


@pytest.mark.slow
def test_an_opponent_is_chosen_among_other_runs(page: Any, dashboard: DashboardServer, runs: Path) -> None:
    """Those of the same game with a checkpoint, whatever their names are."""
    for name, world in (("rival, 100%", "hockey"), ("elsewhere", "CartPole-v1")):
        (runs / name / "checkpoints" / "step-000000000064").mkdir(parents=True)
        (runs / name / "config.json").write_text(json.dumps({"world": world, "learner": "ppo"}))
    playing(page, dashboard, "human")
    menu = page.get_by_label("Opponent")
    assert menu.locator("optgroup option").all_inner_texts() == ["runs/rival, 100%"]
    menu.select_option("runs/rival, 100%")
    page.wait_for_url("**opponent=runs%2Frival%2C%20100%25")
    until(lambda: steps(page) > 3)
    assert page.get_by_label("Opponent").input_value() == "runs/rival, 100%"


LISTEN = """() => {
  window.delays = [];
  const canvas = document.querySelector("canvas");
  canvas.addEventListener("drawn", ({ detail }) => { if (detail.delay) window.delays.push(detail.delay); });
}"""


def test_hockey_is_played_by_keys(page: Any, dashboard: DashboardServer) -> None:
    """Every key arrives in a frame, and the page says how long that took."""
    playing(page, dashboard, "human")
    page.evaluate(LISTEN)
    for key in ("ArrowLeft", "d", "Space"):
        page.keyboard.press(key, delay=60)
    until(lambda: page.evaluate("window.delays.length") >= 3)
    page.get_by_text("ms from key to frame").wait_for()
    assert page.evaluate("scrollY") == 0


def test_fingers_steer_too(new_page: Any, dashboard: DashboardServer) -> None:
    page = new_page(width=390, height=844)
    playing(page, dashboard, "human")
    box = page.locator(".pad").bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.get_by_text("ms from key to frame").wait_for()
    page.mouse.up()


def test_buttons_do_what_they_say(page: Any, dashboard: DashboardServer) -> None:
    playing(page, dashboard, "strong")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Continue").wait_for()
    page.wait_for_timeout(200)
    before = steps(page)
    page.get_by_role("button", name="Step").click()
    until(lambda: steps(page) == before + 1)
    page.get_by_label("sampled actions").check()
    page.get_by_label("Seed").fill("11")
    page.get_by_role("button", name="Restart").click()
    until(lambda: steps(page) == 0)
    assert page.get_by_label("sampled actions").is_checked()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Pause").wait_for()


COLOURS = """() => {
  const canvas = document.querySelector("canvas"), pen = canvas.getContext("2d");
  const red = (x, y) => pen.getImageData(x * canvas.width, y * canvas.height, 1, 1).data[0];
  return [red(0.25, 0.25), red(0.75, 0.25), red(0.25, 0.75), red(0.75, 0.75)];
}"""


@pytest.mark.slow
def test_screens_are_a_grid(page: Any, dashboard: DashboardServer) -> None:
    """Each tile of the image is drawn in its own place, without a change of its colour."""
    playing(page, dashboard, "none")
    colours = page.evaluate(COLOURS)
    assert colours == [0, 60, 120, 180]


def test_a_refusal_is_told_as_text(page: Any, dashboard: DashboardServer) -> None:
    page.goto(f"{dashboard.url}/play?agent=hockey&opponent=weak")
    page.get_by_text("<b>no</b> agent").wait_for()
    page.get_by_role("button", name="Start again").click()
    page.get_by_text("<b>no</b> agent").wait_for()
    assert page.locator("b", has_text="no").count() == 0


@pytest.mark.diagonal
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_kept_out_of_a_session(new_page: Any, dashboard: DashboardServer, width: int, dark: bool) -> None:
    page = new_page(width=width, dark=dark)
    playing(page, dashboard, "human")
    page.get_by_role("button", name="Pause").click()
    found = Axe().run(page).response["violations"]
    assert not [fault["id"] for fault in found if fault["impact"] in ("serious", "critical")]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
