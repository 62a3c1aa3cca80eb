"""The dashboard's application: it answers, its page is there, and names from outside stay names."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_server import DashboardServer
from rookery.web.dashboard_state import DashboardState
from rookery.web.page_shell import STATIC, VIEWS
from rookery.web.run_folders import NotShown, RunFolders


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return TestClient(make_app(DashboardState(RunFolders([tmp_path / "runs"]))))


def test_it_answers(client: TestClient) -> None:
    answer = client.get("/api/health").json()
    assert answer["status"] == "ok"
    assert answer["folders"] == ["runs"]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_the_same_page(client: TestClient, view: str) -> None:
    answer = client.get(view.format(place="runs", name="a"))
    assert answer.status_code == 200
    assert answer.text == (STATIC / "index.html").read_text()


def test_headers_name_what_a_view_will_load(client: TestClient) -> None:
    """Each address once; that of the trials is the one that the page asks for, whatever the name of the study."""
    header = client.get("/studies/runs/a%20%3E,b").headers["link"]
    found = re.findall(r"<([^>]+)>; rel=(\w+)", header)
    assert len(found) == len(set(found)) > 15
    modules = [address for address, rel in found if rel == "modulepreload"]
    assert {"/static/js/views/study.js", "/static/js/study/dot_plot.js"} <= set(modules)
    assert all(client.get(address).status_code == 200 for address in modules)
    assert [address for address, rel in found if rel == "preload"] == [
        "/api/studies/runs/a%20%3E%2Cb/trials?columns=results&format=packed"
    ]
    assert "uPlot" not in header
    assert "uPlot" in client.get("/runs/runs/a").headers["link"]


def test_the_page_of_a_run_asks_for_its_curves_first(client: TestClient) -> None:
    """A browser has six connections for some thirty files: what takes longest comes before them, and the modules of the
    parts that nobody has opened are not among them."""
    found = re.findall(r"<([^>]+)>; rel=(\w+)", client.get("/runs/runs/a").headers["link"])
    asked = [address.partition("?")[0] for address, _ in found[:4]]
    assert asked == ["/api/runs/runs/a/metrics/data", "/api/runs/runs/a/metrics", "/api/runs/runs/a", "/api/session"]
    modules = {address.rpartition("/")[2] for address, rel in found if rel == "modulepreload"}
    assert "overview_tab.js" in modules and "log_tab.js" not in modules and "metrics_tab.js" not in modules


def test_files_of_the_page(client: TestClient) -> None:
    answer = client.get("/static/js/main.js")
    assert answer.content == (STATIC / "js" / "main.js").read_bytes()
    assert answer.headers["content-type"].startswith("text/javascript")
    again = client.get("/static/js/main.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for name in (
        "js",
        "",
        "nothing.js",
        "%2e%2e/page_shell.py",
        "..%2fpage_shell.py",
        "/etc/hostname",
        "js/..%2findex.html",
    ):
        assert client.get(f"/static/{name}").status_code == 404


def test_errors_are_json(client: TestClient) -> None:
    answer = client.get("/api/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"error": "Not Found"}


def test_a_server_as_a_context(tmp_path: Path) -> None:
    with DashboardServer([tmp_path], port=0) as server:
        assert httpx2.get(f"{server.url}/api/health").json()["status"] == "ok"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\\b", "a\0b", "x" * 300, "link", "file"])
def test_only_real_folders_are_found(tmp_path: Path, name: str) -> None:
    runs = tmp_path / "runs"
    (runs / "run").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (runs / "link").symlink_to(tmp_path / "secret")
    (runs / "file").write_text("")
    folders = RunFolders([runs])
    assert folders.find("runs", "run") == runs / "run"
    assert [found for _, found, _ in folders.children()] == ["run"]
    with pytest.raises(NotShown):
        folders.find("runs", name)


def test_files_are_reached_without_links(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "run"
    (run / "videos").mkdir(parents=True)
    (run / "videos" / "a.mp4").write_bytes(b"video")
    (run / "videos" / "b.mp4").symlink_to("/etc/hostname")
    (run / "elsewhere").symlink_to("/etc")
    folders = RunFolders([tmp_path / "runs"])
    assert folders.file("runs", "run", "videos", "a.mp4").read_bytes() == b"video"
    for parts in (("videos", "b.mp4"), ("elsewhere", "hostname"), ("videos", ".."), ("videos",)):
        with pytest.raises(NotShown):
            folders.file("runs", "run", *parts)
