"""Back in a run, in a browser: the slider, the agents of then and now, forks and their tree, where two runs part."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from rookery.web import control_routes
from rookery.web.dashboard_server import DashboardServer
from rookery.web.play import play_routes

RUN = "/runs/runs/cartpole_seed1"
KEPT = (4096, 10240, 16384)
# A session that loads no agent: it says which step it shows, and how far it is with what is trained again.
SESSION = """
import sys
from rookery.engine.workers.child_process import die_with_parent
die_with_parent(int(sys.argv.pop(1)))
import json, socket
from rookery.web.play.session_main import PlayLoop, SessionChannel
request = json.loads(sys.argv[2])
channel = SessionChannel(socket.socket(fileno=int(sys.argv[1])))
if request["exact"]:
    channel.send({"kind": "replaying", "from": 4096, "step": 5096, "to": 8096})
class Session:
    fps, deterministic, seed, steps = 50.0, True, 3, 0
    at = request["at"] if request["at"] is not None else 99999
    def step(self): self.steps += 1
    def restart(self, seed): self.steps = 0
    def go_to(self, step): self.at = step
    def frame(self, detailed):
        return {"episode": 1, "steps": self.steps, "return": 1.5, "playing": True, "outcomes": {}, "seed": 3,
            "deterministic": True, "agent_step": self.at, "hockey": {"x": [2, 8, 5], "y": [4, 4, 4],
            "angle": [0, 0, 0], "vx": 9, "vy": 3, "hold": [0, 5], "winner": 0, "steps": 1, "limit": 250}}, None
channel.send({"kind": "ready", "view": "hockey", "world": "hockey", "fps": 50, "seed": 3, "names": ["a", "b"],
    "human": False, "envs": 1, "tiles": None, "step": request["at"], "exact": "exact" if request["exact"] else None})
loop = PlayLoop(Session(), None, channel)
while True:
    loop.turn()
"""
FORKED = """
import json, pathlib, sys
words = sys.argv[2:]
path = pathlib.Path(words[1])
fork = path.parent / words[words.index("--name") + 1]
parent = {"run": path.name, "id": json.loads((path / "run.json").read_text())["id"], "step": int(words[3])}
fork.mkdir()
(fork / "run.json").write_text(json.dumps({"id": "f" * 32, "created": 1.0, "parent": parent}))
(fork / "metrics.jsonl").write_bytes((path / "metrics.jsonl").read_bytes())
"""


@pytest.fixture
def runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(play_routes, "CODE", SESSION)
    monkeypatch.setattr(control_routes, "LASTING", FORKED)
    keep_checkpoints(runs / "cartpole_seed1")
    return runs


def keep_checkpoints(run: Path) -> None:
    """Folders such as a run keeps, without what is in them."""
    for step in KEPT:
        (run / "checkpoints" / f"step-{step:012d}").mkdir(parents=True)


@pytest.fixture
def slider(page: Any, dashboard: DashboardServer) -> Any:
    page.goto(dashboard.url + RUN)
    found = page.get_by_role("slider", name="Go back to a moment of this run")
    found.wait_for()
    return found


def titles(page: Any) -> list[str]:
    return [one.inner_text() for one in page.locator(".rewind-players h3").all()]


def test_the_slider_is_moved_by_keys_buttons_and_a_number(page: Any, slider: Any) -> None:
    """It lies under the curves, a line in them shows the moment, and it says where the checkpoint is."""
    track, over = slider.bounding_box(), page.locator(".u-over").first.bounding_box()
    assert abs(track["x"] + 8 - over["x"]) < 3 and abs(track["width"] - 16 - over["width"]) < 6
    slider.focus()
    last = int(slider.input_value())
    page.keyboard.press("ArrowLeft")
    assert int(slider.input_value()) < last
    page.get_by_role("button", name="The checkpoint before").click()
    assert slider.get_attribute("aria-valuetext").startswith("step 16,384 ")
    page.get_by_role("button", name="The checkpoint before").click()
    page.get_by_role("spinbutton", name="Step").fill("9000")
    page.keyboard.press("Tab")
    assert "step 9,000 of" in slider.get_attribute("aria-valuetext")
    assert "checkpoint at 4,096" in slider.get_attribute("aria-valuetext")
    line = page.locator(".chart-marker").first.bounding_box()
    thumb = (int(slider.input_value()) - int(slider.get_attribute("min"))) / (
        int(slider.get_attribute("max")) - int(slider.get_attribute("min"))
    )
    assert abs(line["x"] - over["x"] - thumb * over["width"]) < 6


@pytest.mark.slow
def test_the_agent_of_then_plays_beside_the_agent_of_now(page: Any, slider: Any) -> None:
    page.get_by_role("spinbutton", name="Step").fill("5000")
    page.get_by_role("button", name="Play it beside now").click()
    page.get_by_role("heading", name="Then: step 5,000").wait_for()
    page.get_by_role("heading", name="Now: step 99,999").wait_for()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name=f"Then: step {int(slider.input_value()):,}").wait_for()
    page.get_by_role("button", name="Exactly there").click()
    page.get_by_role("heading", name=", exact").wait_for()
    assert titles(page)[1] == "Now: step 99,999"
    page.get_by_role("button", name="Stop playing").click()
    assert page.locator(".rewind-players canvas").count() == 0


def test_a_fork_from_there_is_in_the_tree(new_page: Any, runs: Path) -> None:
    page = new_page()
    with DashboardServer([runs], port=0, allow_control=True) as server:
        page.goto(server.url + RUN)
        page.get_by_role("spinbutton", name="Step").fill("5000")
        page.locator("summary", has_text="Fork from here").click()
        page.get_by_label("Settings, one per line").fill("ppo.clip = 0.1\n")
        shown = page.locator(".fork .command code")
        assert shown.inner_text().endswith("--at 5000 --set ppo.clip=0.1")
        page.get_by_role("button", name="Fork from here").click()
        page.get_by_text("It trains:").wait_for()
        page.locator(".tree li li").get_by_role("link", name="cartpole_seed1-fork").click()
        page.get_by_role("heading", name="cartpole_seed1-fork").wait_for()
        page.goto("about:blank")


def test_without_permission_the_command_is_shown(page: Any, slider: Any) -> None:
    page.locator("summary", has_text="Fork from here").click()
    assert "rookery fork" in page.locator(".fork .command code").inner_text()
    assert page.get_by_role("button", name="Fork from here").count() == 0


def test_where_two_runs_part_is_a_page(new_page: Any, dashboard: DashboardServer) -> None:
    """From the comparison, by its link."""
    page = new_page()
    page.goto(f"{dashboard.url}/compare?run=runs/cartpole_seed1&run=runs/cartpole_seed2")
    page.get_by_role("link", name="Where they part").click()
    page.get_by_text("They differ at step").wait_for(timeout=120_000)  # a process that imports torch
    assert page.get_by_role("row", name="seed").count() >= 1
    assert page.locator(".chart-marker").count() == 1
    assert page.get_by_role("button", name="Find the exact step").is_visible()


@pytest.mark.diagonal
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_kept_out(new_page: Any, dashboard: DashboardServer, runs: Path, width: int, dark: bool) -> None:
    shutil.copytree(runs / "cartpole_seed1", runs / "fork")
    facts = json.loads((runs / "cartpole_seed1/run.json").read_text())
    parent = {"run": "cartpole_seed1", "id": facts["id"], "step": 4096}
    (runs / "fork/run.json").write_text(json.dumps({**facts, "id": "e" * 32, "parent": parent}))
    page = new_page(width=width, dark=dark)
    for path, there in {RUN: ".family li li", "/diff?run=runs/cartpole_seed1&run=runs/fork": ".parting"}.items():
        page.goto(dashboard.url + path)
        page.wait_for_selector(there)
        page.wait_for_timeout(300)
        found = Axe().run(page).response["violations"]
        serious = [one["nodes"][0]["html"] for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, "\n".join(serious)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
