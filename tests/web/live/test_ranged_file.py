"""Files of a run: in ranges, while they grow, and never as a page that runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from starlette.testclient import TestClient

from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_server import DashboardServer
from rookery.web.dashboard_state import DashboardState
from rookery.web.run_folders import RunFolders

DATA = bytes(range(256)) * 4
FILES = "/api/runs/runs/run/files"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "run"
    (folder / "videos").mkdir(parents=True)
    (folder / "videos" / "a.mp4").write_bytes(DATA)
    return folder


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(make_app(DashboardState(RunFolders([folder.parent])))) as client:
        yield client


def test_a_whole_file(client: TestClient) -> None:
    answer = client.get(f"{FILES}/videos/a.mp4")
    assert answer.content == DATA and answer.headers["content-type"] == "video/mp4"
    head = client.head(f"{FILES}/videos/a.mp4")
    assert head.content == b"" and head.headers["content-length"] == str(len(DATA))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("bytes=0-9", DATA[:10]), ("bytes=1000-", DATA[1000:]), ("bytes=-24", DATA[-24:]), ("bytes=0-99999", DATA)],
)
def test_ranges(client: TestClient, asked: str, expected: bytes) -> None:
    answer = client.get(f"{FILES}/videos/a.mp4", headers={"Range": asked})
    assert answer.status_code == 206 and answer.content == expected
    assert answer.headers["content-range"].endswith(f"/{len(DATA)}")


@pytest.mark.parametrize("asked", ["bytes=-", "bytes=0-1,5-6", "pages=1-2", "bytes=a-b", "x"])
def test_what_is_no_single_range_gets_the_whole_file(client: TestClient, asked: str) -> None:
    answer = client.get(f"{FILES}/videos/a.mp4", headers={"Range": asked})
    assert answer.status_code == 200 and answer.content == DATA


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=9-3", "bytes=-0"])
def test_ranges_outside_of_the_file(client: TestClient, asked: str) -> None:
    answer = client.get(f"{FILES}/videos/a.mp4", headers={"Range": asked})
    assert answer.status_code == 416 and answer.headers["content-range"] == f"bytes */{len(DATA)}"


def test_a_range_of_another_version_is_the_whole_file(client: TestClient) -> None:
    tag = client.get(f"{FILES}/videos/a.mp4").headers["etag"]
    for given, status in ((tag, 206), ('"other"', 200)):
        answer = client.get(f"{FILES}/videos/a.mp4", headers={"Range": "bytes=0-9", "If-Range": given})
        assert answer.status_code == status


TEXT, OTHER = "text/plain; charset=utf-8", "application/octet-stream"


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("a.png", "image/png", True), ("notes.md", TEXT, True), ("A.JSON", TEXT, True), ("ö \"';.txt", TEXT, True),
        ("a.svg", "image/svg+xml", False), ("a.html", OTHER, False), ("a.js", OTHER, False), ("a.xhtml", OTHER, False),
        ("a", OTHER, False), ("a.pdf", OTHER, False), ("a.png.html", OTHER, False), (".html", OTHER, False),
    ],
)  # fmt: skip
def test_no_file_is_a_page(client: TestClient, folder: Path, name: str, kind: str, shown: bool) -> None:
    (folder / name).write_text("<script>alert(1)</script>")
    answer = client.get(f"{FILES}/{quote(name)}")
    assert answer.status_code == 200 and answer.headers["content-type"] == kind
    assert answer.headers["content-disposition"].startswith("inline" if shown else "attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "videos",
        "nothing",
        "..%2f..%2fsecret",
        "%2e%2e/secret",
        "videos//a.mp4",
        "link",
        "away/secret",
        "a\\b",
        "%00",
    ],
)
def test_only_files_of_the_run(client: TestClient, folder: Path, path: str) -> None:
    (folder.parent.parent / "secret").write_text("what is in it")
    (folder / "link").symlink_to(folder.parent.parent / "secret")
    (folder / "away").symlink_to(folder.parent.parent)
    answer = client.get(f"{FILES}/{path}")
    assert answer.status_code == 404 and "what is in it" not in answer.text


def test_a_file_that_grows_while_it_is_sent(folder: Path) -> None:
    """As long as it was when it was opened: the answer has said its length."""
    log = folder / "metrics.jsonl"
    log.write_bytes(b"x" * 3_000_000)
    with DashboardServer([folder.parent], port=0) as server:
        received = 0
        with httpx2.stream("GET", f"{server.url}{FILES}/metrics.jsonl") as answer, log.open("ab") as file:
            for data in answer.iter_bytes():
                file.write(b"y" * 1000)
                file.flush()
                received += len(data)
    assert received == 3_000_000
