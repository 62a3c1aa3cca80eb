"""The pages of studies in a browser: all trials, those that come, and the way to their runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from axe_playwright_python.sync_playwright import Axe
from optuna.trial import TrialState

from rookery.web.dashboard_server import DashboardServer
from studies.example_studies import add_trial, make_folder

COMPLETE = "main[data-complete]"
NAME = "<img src=x onerror=document.title='caught'>"


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    """12 finished trials, a pruned and a failed one; the first has its run."""
    made = make_folder(tmp_path / "studies")
    for number in range(12):
        parts = {"seed-0": {"value": 1.0, "run": f"runs/trial-{number:05d}-seed-0", "seconds": 1.0, "steps": 9}}
        add_trial(made, float((number * 7) % 12), parts=parts)
    add_trial(made, None, TrialState.PRUNED, reason="behind others")
    add_trial(made, None, TrialState.FAIL, reason=NAME)
    return made


@pytest.fixture
def server(study: optuna.Study, tmp_path: Path, runs: Path) -> Iterator[DashboardServer]:
    run = tmp_path / "studies" / "demo" / "runs" / "trial-00000-seed-0"
    shutil.copytree(runs / "cartpole_seed1", run)
    with DashboardServer([tmp_path / "studies"], port=0) as made:
        yield made


@pytest.mark.slow
def test_a_study_and_its_trials(server: DashboardServer, page: Any, study: optuna.Study) -> None:
    """From the list to the study, a trial and its run; a trial that ends in the meantime appears."""
    page.goto(f"{server.url}/studies")
    page.get_by_role("link", name="demo").click()
    page.wait_for_selector(COMPLETE)
    assert "best value, trial 5" in page.inner_text("main")
    assert page.locator("table.importances tr").count() == 3
    page.get_by_label("State of the trials").select_option("failed")
    page.get_by_text("1 of 14 trials").wait_for()
    page.get_by_text(NAME).first.wait_for()
    assert page.title() != "caught"
    page.get_by_label("State of the trials").select_option("all")
    add_trial(study, 99.0)
    page.get_by_text("best value, trial 14").wait_for()
    page.get_by_text("15 trials", exact=True).wait_for()
    page.get_by_label("Number of a trial").fill("0")
    page.get_by_role("region", name="Trials").get_by_role("link", name="seed-0").click()
    page.wait_for_url("**/runs/studies%3Ademo/trial-00000-seed-0")
    page.get_by_role("heading", name="trial-00000-seed-0").first.wait_for()


def test_trials_are_sorted_and_drawn(server: DashboardServer, page: Any) -> None:
    page.goto(f"{server.url}/studies/studies/demo?x=time")
    page.wait_for_selector(COMPLETE)
    trials = page.get_by_role("region", name="Trials")
    trials.get_by_role("button", name="Value").click()
    trials.locator("tbody tr:not(.gap) td").nth(1).filter(has_text=re.compile("^11$")).wait_for()
    assert page.get_by_label("By time").is_checked()
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    canvases = page.locator("canvas.dot-plot")
    canvases.last.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    assert all(canvases.nth(k).evaluate(drawn) for k in range(canvases.count()))
    assert canvases.count() >= 5


@pytest.mark.push("desktop")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["desktop", "phone, dark"])
def test_nobody_is_kept_out_of_a_study(server: DashboardServer, new_page: Any, width: int, dark: bool) -> None:
    page = new_page(width=width, dark=dark)
    for path in ("/studies", "/studies/studies/demo"):
        page.goto(server.url + path)
        page.wait_for_selector(COMPLETE if path.endswith("demo") else ".data-table tbody tr:not(.gap)")
        page.wait_for_timeout(200)
        found = Axe().run(page).response["violations"]
        serious = [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in BAD]
        assert not serious, "\n".join(serious)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


BAD = ("serious", "critical")
