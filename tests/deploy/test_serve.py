"""`rookery serve` over HTTP: answers, refusals, champions that change, and clients that misbehave."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from background import ignore_sigint
from rookery.cli.main import main
from rookery.deploy.registry import Registry
from rookery.deploy.serving import server as server_module
from rookery.deploy.serving.client import Client
from rookery.deploy.serving.server import AgentServer
from rookery.errors import MissingExtra, OptionError, RegistryError, RequestRefused, RunError
from training.finished import make_run

OBSERVATIONS = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """Two versions whose actions differ; the second one is the champion."""
    folder = tmp_path_factory.mktemp("serving")
    made = Registry.create(folder / "agents")
    for hidden in ([8], [16]):
        made.promote(made.add(make_run(folder / "runs", hidden=hidden)).number, {})
    return made


@pytest.fixture(scope="module")
def expected(registry: Registry) -> dict[str, list[int]]:
    """The actions of each version."""
    folders = {str(number): registry.version(number).folder for number in (1, 2)}
    actions = {key: rookery.load(folder).act(OBSERVATIONS, deterministic=True) for key, folder in folders.items()}
    assert (actions["1"] != actions["2"]).any()
    return {key: value.tolist() for key, value in actions.items()}


@pytest.fixture(scope="module")
def server(registry: Registry) -> Iterator[AgentServer]:
    with AgentServer(registry.folder, port=0, poll_seconds=0.02) as made:
        yield made


@pytest.fixture
def client(server: AgentServer) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


def ask(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, json.loads(content) if content else None, {k.lower(): v for k, v in response.getheaders()}


def test_arrays_and_lists_get_the_champions_actions(client: Client, expected: dict[str, list[int]]) -> None:
    actions = client.act(OBSERVATIONS)
    assert isinstance(actions, np.ndarray) and actions.tolist() == expected[client.version or ""]
    assert client.act(OBSERVATIONS.tolist()) == expected[client.version or ""]
    assert set(client.act(OBSERVATIONS, deterministic=False).tolist()) <= {0, 1}
    assert client.act(OBSERVATIONS, action_masks=[[True, False]] * 16) == [0] * 16


def test_health_and_version(server: AgentServer, registry: Registry) -> None:
    status, health, _ = ask(server.url, "GET", "/health")
    assert status == 200 and health["status"] == "ok" and health["problem"] is None
    status, version, _ = ask(server.url, "GET", "/version")
    assert status == 200 and version["version"] == health["version"] == registry.champion_number()
    assert version["action_space"] == "Discrete(2)" and not version["recurrent"]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "sentence"),
    [("POST", "/act", b"{}", {}, 400, "should be a JSON object"),
     ("POST", "/act", b'{"observations": [[NaN, 0, 0, 0]]}', {}, 400, "NaN or infinity in row 0"),
     ("POST", "/act", b'{"observations": [[0, 0, 0]]}', {}, 400, "should be of shape"),
     ("POST", "/act", b"", {}, 400, "not JSON"),
     ("POST", "/act", b"x", {"Content_Type": "image/png"}, 415, "the type of the body"),
     ("POST", "/act", b"x", {"Content_Length": str(1 << 40)}, 413, "send fewer observations"),
     ("GET", "/act", None, {}, 405, "Method Not Allowed"),
     ("GET", "/", None, {}, 404, "Not Found")],
)  # fmt: skip
def test_refusals_are_sentences(
    server: AgentServer, method: str, path: str, body: bytes, headers: dict[str, str], status: int, sentence: str
) -> None:
    got, value, _ = ask(server.url, method, path, body, **headers)
    assert got == status and sentence in value["error"]


def test_a_body_without_a_length_is_cut_too(server: AgentServer, registry: Registry) -> None:
    """It is sent in chunks."""
    with AgentServer(registry.folder, port=0, most_body_bytes=1000) as small:
        connection = http.client.HTTPConnection(small.url.removeprefix("http://"), timeout=20)
        connection.request(
            "POST", "/act", iter([b"[" * 600] * 2), {"Transfer-Encoding": "chunked"}, encode_chunked=True
        )
        assert connection.getresponse().status == 413
        connection.close()


def test_the_client_raises_what_the_server_says(client: Client) -> None:
    with pytest.raises(RequestRefused, match="should be of shape") as refused:
        client.act(np.zeros((1, 3)))
    assert refused.value.status == 400
    assert client.act(OBSERVATIONS).shape == (16,)  # over the same connection


def test_a_connection_that_the_server_closed_is_opened_again(registry: Registry, monkeypatch: Any) -> None:
    monkeypatch.setattr(server_module, "KEEP_ALIVE_SECONDS", 0.05)
    with AgentServer(registry.folder, port=0) as made, Client(made.url) as client:
        client.act(OBSERVATIONS)
        time.sleep(0.5)
        assert client.act(OBSERVATIONS).shape == (16,)
    with pytest.raises(OSError):
        client.act(OBSERVATIONS)


def test_no_request_is_lost_while_champions_change(
    server: AgentServer, registry: Registry, expected: dict[str, list[int]]
) -> None:
    """Every answer is that of the version that it names."""
    answers: list[tuple[str | None, list[int]]] = []
    over = threading.Event()
    failures: list[Exception] = []

    def act() -> None:
        try:
            with Client(server.url) as client:
                while not over.is_set():
                    actions = client.act(OBSERVATIONS).tolist()
                    answers.append((client.version, actions))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        champion = registry.rollback({}).number
        wait_until(lambda champion=champion: server.version == champion)
    over.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert {version for version, _ in answers} == {"1", "2"}
    assert all(actions == expected[str(version)] for version, actions in answers)


def test_a_champion_that_does_not_load_leaves_the_old_one(registry: Registry, tmp_path: Path) -> None:
    """Which /health says, until there is a good one."""
    mine = Registry.create(tmp_path / "agents")
    for hidden in ([8], [16]):
        mine.add(make_run(tmp_path / "runs", hidden=hidden))
    mine.promote(1, {})
    with AgentServer(mine.folder, port=0, poll_seconds=0.02) as server, Client(server.url) as client:
        mine.promote(2, {})
        weights = next((mine.folder / "versions" / "000002").rglob("*.safetensors"))
        wait_until(lambda: server.version == 2)
        mine.rollback({})
        wait_until(lambda: server.version == 1)
        weights.chmod(0o600)
        weights.write_bytes(weights.read_bytes()[:-1] + b"!")
        replace_champion(mine, 2)
        wait_until(lambda: server.watch.problem)
        assert client.act(OBSERVATIONS).shape == (16,) and client.version == "1"
        health = client.health()
        assert health["status"] == "degraded" and "version 2 cannot be used" in health["problem"]
        replace_champion(mine, 1)
        wait_until(lambda: client.health()["status"] == "ok")


def replace_champion(registry: Registry, number: int) -> None:
    """As a deployer that does not look at the files."""
    path = registry.folder / "aliases.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "champion": number}))


def wait_until(condition: Any) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


# --- clients that misbehave -------------------------------------------------------------------------------------------


def test_half_requests_and_gone_clients_do_not_block_others(server: AgentServer, client: Client) -> None:
    """Requests without an end, clients that leave before the answer, and bytes that are not HTTP."""
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"observations": OBSERVATIONS.tolist()}).encode()
    head = b"POST /act HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: %d\r\n\r\n" % (int(port), len(body))
    parts = [b"", b"POST /act HT", head, head + body[:-1], head + body, os.urandom(200), b"GET " + b"/" * 100_000]
    opened = []
    for part in parts * 10:
        made = socket.create_connection((host, int(port)))
        made.sendall(part)
        opened.append(made)
        if part == head + body:
            made.close()
    for _ in range(20):
        assert client.act(OBSERVATIONS).shape == (16,)
    for made in opened:
        made.close()
    assert client.health()["status"] == "ok"


def test_a_body_that_does_not_arrive_is_given_up(server: AgentServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.deploy.serving.app.BODY_SECONDS", 0.05)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as made:
        made.sendall(b"POST /act HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 9\r\n\r\n{" % int(port))
        assert made.recv(100).startswith(b"HTTP/1.1 408")


def test_a_full_queue_says_when_to_come_again(registry: Registry) -> None:
    with AgentServer(registry.folder, port=0, most_waiting=0) as full:
        status, value, headers = ask(full.url, "POST", "/act", b'{"observations": [[0, 0, 0, 0]]}')
    assert status == 503 and headers["retry-after"] == "1" and "try again" in value["error"]


def test_an_error_of_the_agent_is_no_end(server: AgentServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ArithmeticError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(server.batcher.agent, "act", fail)
        with pytest.raises(RequestRefused, match="the agent failed: ArithmeticError: broken"):
            client.act(OBSERVATIONS)
    assert client.act(OBSERVATIONS).shape == (16,)


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "localhost"}, {"Host": ""}, {"Origin": "http://evil.example"},
     {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "none"}],
)  # fmt: skip
def test_pages_of_other_sites_are_not_answered(server: AgentServer, headers: dict[str, str]) -> None:
    """As by the dashboard: a site's name may point to this machine, and its pages may send what they want."""
    body = json.dumps({"observations": OBSERVATIONS.tolist()}).encode()
    status, value, _ = ask(server.url, "POST", "/act", body, **headers)
    assert status == 403 and "error" in value
    if "none" not in headers.values():  # an address that was typed may be shown
        assert ask(server.url, "GET", "/health", **headers)[0] == 403
    assert ask(server.url, "POST", "/act", body, Origin=server.url)[0] == 200


def test_another_host_can_be_allowed(registry: Registry) -> None:
    with AgentServer(registry.folder, port=0, allow_hosts=["agents.example.org"]) as made:
        assert ask(made.url, "GET", "/health", Host="agents.example.org")[0] == 200
        assert ask(made.url, "GET", "/health", Host="agents.example.com")[0] == 403


# --- tokens and addresses ---------------------------------------------------------------------------------------------


def test_a_token_is_asked_for(registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any) -> None:
    """At every address, if there is one; and it is never shown."""
    monkeypatch.setenv("ROOKERY_SERVE_TOKEN", TOKEN)
    with AgentServer(registry.folder, port=0, host="0.0.0.0") as made:
        url = f"http://127.0.0.1:{made.url.rpartition(':')[2]}"
        for given in ("", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Bearer ä"):
            status, value, headers = ask(url, "GET", "/health", Authorization=given.encode().decode("latin-1"))
            assert status == 401 and headers["www-authenticate"] == "Bearer" and TOKEN not in str(value)
        with Client(url) as client, pytest.raises(RequestRefused, match="401"):
            client.act(OBSERVATIONS)
        with Client(url, TOKEN) as client:
            assert client.act(OBSERVATIONS).shape == (16,)
    assert TOKEN not in caplog.text and TOKEN not in "".join(capfd.readouterr())


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_machines_need_a_token(registry: Registry, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOKERY_SERVE_TOKEN", raising=False)
    with pytest.raises(OptionError, match="set ROOKERY_SERVE_TOKEN to a token"):
        AgentServer(registry.folder, host=host, port=0)


@pytest.mark.parametrize("token", ["short", "with a space in the middle", "ümlauts-are-not-for-headers"])
def test_bad_tokens_are_refused_and_not_shown(token: str, registry: Registry) -> None:
    with pytest.raises(OptionError, match="should have at least 16") as refused:
        AgentServer(registry.folder, port=0, token=token)
    assert token not in str(refused.value)


def test_a_port_in_use_is_one_sentence(server: AgentServer, registry: Registry, capsys: Any) -> None:
    port = server.url.rpartition(":")[2]
    assert main(["serve", str(registry.folder), "--port", port]) == 2
    shown = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 cannot be used (Address already in use)" in shown and len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    ("what", "options", "kind", "sentence"),
    [("nothing-here", {}, RunError, "there is no run"),
     ("registry:nothing-here", {}, RegistryError, "does not exist"),
     ("x", {"device": "gpu"}, OptionError, "device should be cpu, cuda"),
     ("x", {"device": "cuda:99"}, OptionError, "was requested, but torch finds"),
     ("x", {"port": 70000}, OptionError, "from 0"),
     ("x", {"host": "no such host"}, OptionError, "there is no such address")],
)  # fmt: skip
def test_what_cannot_be_served(what: str, options: dict[str, Any], kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        AgentServer(what, **{"port": 0, **options})


def test_a_registry_without_a_champion_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="has no champion yet"):
        AgentServer(Registry.create(tmp_path / "agents").folder, port=0)


def test_runs_saved_agents_and_versions_are_served(registry: Registry, tmp_path: Path, expected: Any) -> None:
    run = make_run(tmp_path, hidden=[8])
    saved = rookery.load(run.path).save(tmp_path / "saved")
    for what in (str(run.path), run.name, str(saved), f"registry:{registry.folder}@1"):
        with AgentServer(what, port=0, runs_dir=tmp_path) as made, Client(made.url) as client:
            assert client.act(OBSERVATIONS).tolist() == expected["1"] and client.version == what


def test_a_missing_package_names_the_extra(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rookery\[serve\]'"):
        AgentServer(registry.folder, port=0)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sigterm_finishes_what_was_accepted(registry: Registry, tmp_path: Path) -> None:
    """The command says where it listens, and ends with 0 after the answers: also in the background of a script, where
    SIGINT is ignored."""
    command = [sys.executable, "-m", "rookery", "serve", str(registry.folder), "--port", "0", "--json"]
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, preexec_fn=ignore_sigint)
    assert process.stdout is not None
    started = json.loads(process.stdout.readline())
    assert started["version"] == registry.champion_number() and started["pid"] == process.pid
    host, port = started["url"].removeprefix("http://").split(":")
    body = json.dumps({"observations": OBSERVATIONS.tolist()}).encode()
    with socket.create_connection((host, int(port)), timeout=30) as half:
        head = b"POST /act HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: %d\r\n\r\n"
        half.sendall(head % (int(port), len(body)))
        with Client(started["url"]) as client:
            client.act(OBSERVATIONS)  # by then the first request has been accepted
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        half.sendall(body)
        assert half.recv(1000).startswith(b"HTTP/1.1 200")
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and rest == b"" and (tmp_path / "errors").read_text() == ""
