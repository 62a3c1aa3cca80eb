"""The page of a run: it grows with the run, zooms exactly, finds metrics, and changes only what it may."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.web.dashboard_server import DashboardServer
from web.live.grown_runs import GrowingRun

RUN = "/runs/runs/cartpole_seed1"
DRAWN = ".chart-place[data-points]"
NOTE = "<b onmouseover=alert(1)>a note</b>"


@pytest.fixture
def grown(runs: Path) -> GrowingRun:
    """A run that is written to while the page shows it."""
    run = GrowingRun(runs, "grown")
    run.start(num_envs=4, backend="serial", steps=100_000)
    for step in range(100, 1100, 100):
        progress(run, step)
    return run


def progress(run: GrowingRun, step: int, **more: float) -> None:
    values = {"episode/return": step / 10, "episode/length": 20.0, "time/env": 0.7, "time/learner": 0.3, **more}
    run.write("progress", step, episodes=step // 10, steps_per_second=500.0, share=step / 1e5, **values)


@pytest.fixture
def opened(dashboard: DashboardServer, page: Any) -> Callable[..., Any]:
    """Opens a path, and waits until a curve is drawn."""

    def opened_at(path: str, ready: str = DRAWN) -> Any:
        page.goto(dashboard.url + path)
        page.wait_for_selector(ready)
        return page

    return opened_at


def last_x(page: Any) -> float:
    return float(page.locator(DRAWN).first.get_attribute("data-last"))


def wait_for_last(page: Any, step: int) -> None:
    wait_until(page, f"document.querySelector('{DRAWN}')?.dataset.last === '{step}'")


def asked_ranges(page: Any) -> list[str]:
    """The addresses of curves that the page asks for from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/metrics/data" in request.url else None)
    return asked


def test_it_says_what_the_run_is(opened: Any) -> None:
    page = opened(RUN)
    head = page.inner_text(".run-head")
    assert "cartpole_seed1" in head and "finished" in head and "CartPole-v1 · ppo · 16 envs" in head
    assert page.locator(".bottleneck").first.inner_text().endswith(".")
    assert "rookery eval" in page.inner_text("section:has-text('What to type next')")


def test_it_grows_with_the_run(opened: Any, grown: GrowingRun) -> None:
    page = opened("/runs/runs/grown")
    assert last_x(page) == 1000
    page.evaluate("window.same_page = true")
    progress(grown, 1100)
    wait_for_last(page, 1100)
    page.get_by_text("1,100").first.wait_for()
    grown.write("evaluation", 1200, **{"eval/return": 321.5, "eval/return_low": 300.0, "eval/return_high": 340.0})
    page.locator(".number-box", has_text="last evaluation").get_by_text("321.5").wait_for()
    page.get_by_role("button", name=re.compile("evaluations.*95 % interval")).wait_for()
    grown.write("note", 1200, text=NOTE)
    page.get_by_text(NOTE).wait_for()
    assert page.evaluate("window.same_page") is True


def test_a_resumed_run_begins_again_at_its_checkpoint(opened: Any, grown: GrowingRun) -> None:
    page = opened("/runs/runs/grown")
    assert last_x(page) == 1000
    grown.resume(500)
    wait_for_last(page, 500)
    progress(grown, 600)
    wait_for_last(page, 600)


def test_nothing_is_missed_while_the_server_is_away(new_page: Any, runs: Path, grown: GrowingRun) -> None:
    with DashboardServer([runs], port=0) as server:
        page, port = new_page(), int(server.url.rpartition(":")[2])
        page.goto(server.url + "/runs/runs/grown")
        page.wait_for_selector(DRAWN)
    page.get_by_text("reconnecting").wait_for()
    progress(grown, 1100)
    with DashboardServer([runs], port=port):
        progress(grown, 1200)
        wait_for_last(page, 1200)
        assert page.locator(DRAWN).first.get_attribute("data-points") == "12"
        page.close()
    page.problems[:] = [problem for problem in page.problems if "ERR_" not in problem]  # that nobody answered


def test_a_drag_asks_for_exact_data_and_a_double_click_goes_back(opened: Any) -> None:
    page = opened(RUN)
    asked = asked_ranges(page)
    box = page.locator(".u-over").first.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60, steps=4)
    page.mouse.up()
    wait_until(page, "location.search.includes('from=')")
    wait_until(page, lambda: any("from=" in url and "to=" in url for url in asked))
    page.get_by_text("every point").wait_for()
    page.mouse.dblclick(box["x"] + 200, box["y"] + 50)
    wait_until(page, "!location.search.includes('from=')")
    wait_until(page, lambda: "from=" not in asked[-1])


def test_keys_zoom_and_move(opened: Any) -> None:
    page = opened(RUN)
    page.locator(".chart").first.focus()
    whole = shown(page)
    page.keyboard.press("+")
    wait_until(page, "location.search.includes('from=')")
    near = shown(page)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.05)
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(400)
    assert shown(page)[0] > near[0]
    page.keyboard.press("0")
    wait_until(page, "!location.search.includes('from=')")


def shown(page: Any) -> tuple[float, float]:
    """The range of the first chart, by the board that draws it."""
    found = page.evaluate(
        "(() => { const b = document.querySelector('figure.panel').panel.board; return b.range ?? b.extent; })()"
    )
    return found[0], found[1]


def test_buttons_zoom_and_the_address_keeps_it(opened: Any) -> None:
    page = opened(RUN)
    page.get_by_role("button", name="Zoom in").click()
    wait_until(page, "location.search.includes('from=')")
    page.wait_for_timeout(400)
    before, address = shown(page), page.url
    page.goto(address)
    page.wait_for_selector(DRAWN)
    assert shown(page) == pytest.approx(before, rel=1e-4)
    page.get_by_role("button", name="Show all").click()
    wait_until(page, "!location.search.includes('from=')")


@pytest.mark.push("episodes")
@pytest.mark.parametrize("axis", ["time", "episodes"])
def test_x_may_be_something_else(opened: Any, axis: str, grown: GrowingRun) -> None:
    """What was drawn over steps is gone at once, however long the answer takes."""
    page = opened("/runs/runs/grown")
    page.route(f"**/metrics/data?*x={axis}*", lambda route: (time.sleep(0.3), route.continue_()))
    page.get_by_label("x axis").select_option(axis)
    page.wait_for_selector(DRAWN)
    points, last = int(page.locator(DRAWN).first.get_attribute("data-points")), last_x(page)
    assert points == 10 and 0 < last < 1000
    progress(grown, 1100)
    wait_until(page, f"Number(document.querySelector('{DRAWN}').dataset.points) > {points}")
    assert last < last_x(page) < 1000  # seconds since the start, or episodes
    assert f"x={axis}" in page.url


def test_two_hundred_metrics_can_be_searched(opened: Any, grown: GrowingRun) -> None:
    progress(grown, 1100, **{f"loss/layer_{k}": 0.5 for k in range(200)})
    page = opened("/runs/runs/grown?tab=metrics", ".metric-group")
    headings = page.locator(".metric-group h2").all_inner_texts()
    assert headings.index("Episodes") < headings.index("Losses") < headings.index("Others")
    assert page.locator(".metric-group canvas").count() < 40  # only those near the screen are drawn
    page.get_by_label("Search metrics").fill("layer_19 LOSS")
    page.get_by_text("11 of ").wait_for()
    assert page.locator("figure.panel").count() == 11
    page.wait_for_selector(DRAWN)
    wait_until(page, "location.search.includes('q=layer_19')")


def test_every_part_has_an_address(opened: Any) -> None:
    page = opened(RUN)
    for part, text in [
        ("Time and machine", "Where the time goes"), ("Episodes", "episodes."), ("Settings", "Other than the default"),
        ("Checkpoints and files", "metrics.jsonl"), ("Log", "Follow the end"),
    ]:  # fmt: skip
        page.get_by_role("tab", name=part).click()
        page.get_by_role("tabpanel").get_by_text(text).first.wait_for()
    wait_until(page, "location.search === '?tab=log'")
    page.reload()
    page.get_by_text("Follow the end").wait_for()


def test_settings_are_compared_with_another_run(opened: Any) -> None:
    page = opened(f"{RUN}?tab=config", "text=Other than the default")
    page.get_by_label("Run", exact=True).fill("runs/pendulum_sac")
    page.get_by_role("button", name="Show differences").click()
    differences = page.get_by_role("region", name="Differences")
    differences.get_by_text("Pendulum-v1").first.wait_for()
    assert "CartPole-v1" in differences.inner_text()


def test_nothing_can_be_changed_by_default(opened: Any) -> None:
    page = opened(RUN)
    assert page.locator(".controls").count() == 0


def test_tags_are_saved_where_changes_are_allowed(new_page: Any, runs: Path) -> None:
    with DashboardServer([runs], port=0, allow_control=True) as server:
        page = new_page()
        page.goto(server.url + RUN)
        page.get_by_role("textbox", name="Tags").fill("baseline, <i>paper</i>")
        page.get_by_role("button", name="Save tags").click()
        page.get_by_text("Tags are saved.").wait_for()
        page.reload()
        page.locator(".run-head .tag", has_text="<i>paper</i>").wait_for()
        assert page.locator(".run-head .tag").all_inner_texts() == ["baseline", "<i>paper</i>"]
        page.close()


def test_what_the_page_needs_first_is_asked_for_once(page: Any, opened: Any) -> None:
    """The page's headers name it, so that it is read while the modules are loaded."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/runs/" in request.url else None)
    opened(RUN)
    curves = [url for url in asked if "/metrics/data" in url]
    first = [url for url in asked if not url.endswith("/stream")][:3]
    assert len(curves) == 1 and curves[0] in first
    assert len(set(first)) == 3 and all(asked.count(url) == 1 for url in first)


def test_a_run_that_goes_away_is_no_error(opened: Any, grown: GrowingRun, tmp_path: Path) -> None:
    page = opened("/runs/runs/grown")
    grown.dir.path.rename(tmp_path / "elsewhere")
    page.get_by_text("moved or deleted").wait_for()
    assert last_x(page) == 1000  # its curves stay
    page.problems[:] = [problem for problem in page.problems if "404" not in problem]


def test_a_run_that_goes_away_before_its_stream_opens(
    page: Any, opened: Any, grown: GrowingRun, tmp_path: Path
) -> None:
    def move_first(route: Any) -> None:
        if grown.dir.path.exists():
            grown.dir.path.rename(tmp_path / "elsewhere")
        route.continue_()

    page.route("**/api/runs/runs/grown/stream*", move_first)
    opened("/runs/runs/grown").get_by_text("moved or deleted").wait_for()
    assert not grown.dir.path.exists()
    page.problems[:] = [problem for problem in page.problems if "404" not in problem]


def test_columns(dashboard: DashboardServer, page: Any) -> None:
    """Rows are added at the end only, once; shares add up to one; what was resumed over is cut."""
    page.goto(dashboard.url)
    found = page.evaluate("""async () => {
      const { append, cut, pick, stacked } = await import("/static/js/run/columns.js");
      const columns = pick({ x: [1, 2, 3], series: { a: [1, null, 3], b: [null, null, null] } }, ["a", "b"]);
      const news = [[3, [9, null]], [2, [5, 5]], [3, [null, 7]], [4, [null, null]], [5, [6, null]]];
      const added = news.map(([x, values]) => append(columns, x, values));
      const stack = stacked([[1, 2], [1, null], [3, 1]]);
      return { columns, added, cut: cut(columns, 3), stack };
    }""")
    assert found["columns"] == [[1, 3, 5], [1, 3, 6], [None, 7, None]]
    assert found["added"] == [False, False, True, False, True]
    assert found["cut"] == [[1, 3], [1, 3], [None, 7]]
    assert found["stack"]["data"] == [[1, 2], [1, 1], [0.25, 0.5]]
    assert found["stack"]["shares"] == [[0.25, 0.5], [0.75, 0.5]]


def wait_until(page: Any, true: str | Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for an expression of the page, or a function, while the page goes on. (`wait_for_function` evaluates text in
    the page, which its policy forbids.)"""
    deadline = time.monotonic() + seconds
    while not (page.evaluate(true) if isinstance(true, str) else true()):
        assert time.monotonic() < deadline, "it did not come true"
        page.wait_for_timeout(50)


def test_a_cluster_is_shown(opened: Any, runs: Path) -> None:
    """The figures of a recorded run as those of one on a cluster: nodes, what travels, who works, Ray's dashboard."""
    run = GrowingRun(runs, "clustered")
    places = ["node a, 1f: envs 0 to 3", "<i>node b</i>: envs 4 to 7"]
    run.start(num_envs=8, backend="serial", collectors=places, cluster_dashboard="http://127.0.0.1:8265")
    figures = {
        "cluster/nodes": 2, "cluster/collectors": 2, "cluster/lost": 0, "cluster/in_flight": 4, "cluster/staleness": 7,
        "cluster/bytes_per_second": 3 * 2**20, "cluster/busy": 0.75, "cluster/busy_0": 0.9, "cluster/busy_1": 0.6,
        "time/env": 0.0, "time/learner": 0.5, "time/policy": 0.1, "time/waiting": 0.4,
    }  # fmt: skip
    for step in range(100, 600, 100):
        run.write("progress", step, steps_per_second=500.0, **figures)
    page = opened("/runs/runs/clustered?tab=machine")
    card = page.locator("section.card", has_text="Cluster")
    text = card.inner_text()
    for value, name in [("4", "in flight"), ("7", "staleness, updates"), ("3 MiB/s", "travel")]:
        assert f"{value}\n{name}" in text
    assert "60 %\nof the time the learner works" in text and "75 %\nof the time collectors work" in text
    assert places[1] in text and "90 %" in text  # as text, not as HTML
    link = card.get_by_role("link", name="Ray's own dashboard")
    assert link.get_attribute("href") == "http://127.0.0.1:8265"
    assert page.get_by_text("Who works, share of the time").count() == 1


def test_only_addresses_become_links(opened: Any, runs: Path) -> None:
    """Whatever a run's events say is the address of a dashboard."""
    run = GrowingRun(runs, "clustered")
    run.start(num_envs=8, backend="serial", collectors=["node a"], cluster_dashboard="javascript:alert(1)")
    run.write("progress", 100, steps_per_second=500.0, **{"cluster/collectors": 1, "cluster/busy": 0.5})
    page = opened("/runs/runs/clustered?tab=machine", "text=of the time collectors work")
    assert page.get_by_role("link", name="Ray's own dashboard").count() == 0


def test_other_runs_show_no_cluster(opened: Any) -> None:
    page = opened(f"{RUN}?tab=machine")
    assert not page.locator("section.card", has_text="Cluster").is_visible()
