"""An address at which there is no Ray cluster is rejected at once, in one sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from rookery.cluster import ray_start
from rookery.cluster.ray_start import SETTINGS, TokenWanted, check_answers
from rookery.errors import RunError


class FakeRay:
    """Ray as far as an address is concerned; `ray.init` notes that it was called. It may want a token."""

    def __init__(self, auto: str = "", wants_token: bool = False) -> None:
        self.asked: list[str] = []  # addresses at which it was asked whether it wants one

        def client(address: str) -> None:
            self.asked.append(address)
            if wants_token:
                raise ray.exceptions.AuthenticationError("InvalidAuthToken")

        self._raylet, self.exceptions = SimpleNamespace(GcsClient=client), ray.exceptions
        services = SimpleNamespace(canonicalize_bootstrap_address=lambda address: auto or address)
        self._private = SimpleNamespace(services=services, ray_constants=SimpleNamespace(ENABLE_RAY_CLUSTER=True))
        self.addresses: list[str] = []

    def init(self, address: str, **options: Any) -> None:
        self.addresses.append(address)

    def is_initialized(self) -> bool:
        return False

    def shutdown(self) -> None:
        pass


def free_port(family: int = socket.AF_INET) -> int:
    """A port at which nothing listens."""
    with closing(socket.socket(family)) as free:
        free.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def server(answer: bytes, family: int = socket.AF_INET) -> Iterator[int]:
    """A port that sends these bytes to whoever connects, and keeps the connection open."""
    with closing(socket.socket(family)) as listening:
        listening.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        listening.listen()
        kept: list[socket.socket] = []

        def serve() -> None:
            try:
                while True:
                    kept.append(listening.accept()[0])
                    kept[-1].sendall(answer)
            except OSError:  # closed
                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in kept:
            connection.close()


GRPC = bytes((0, 0, 6, SETTINGS, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "localhost:{}", "ray://127.0.0.1:{}"])
def test_nothing_listens(form: str) -> None:
    """Also at the port of Ray's clients, and for a name."""
    with pytest.raises(OSError, match="refused"):
        check_answers(FakeRay(), form.format(free_port()))


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "ray://127.0.0.1:{}?namespace=x"])
def test_a_server_of_grpc_is_taken_for_ray(form: str) -> None:
    """Whether it is Ray's own, Ray finds out."""
    with server(GRPC) as port:
        check_answers(FakeRay(), form.format(port))


def test_a_cluster_that_wants_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that Ray finds on this machine, Ray takes the token by itself."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with server(GRPC) as port:
        with pytest.raises(TokenWanted, match="asks for a token: set RAY_AUTH_MODE=token"):
            check_answers(FakeRay(wants_token=True), f"127.0.0.1:{port}")
        check_answers(FakeRay(auto=f"127.0.0.1:{port}", wants_token=True), "auto")
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        with pytest.raises(TokenWanted):
            check_answers(FakeRay(wants_token=True), "auto")


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_ipv6() -> None:
    """In brackets, as Ray takes it."""
    try:
        free_port(socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server(GRPC, socket.AF_INET6) as port:
        ours = FakeRay()
        check_answers(ours, f"[::1]:{port}")
        assert ours.asked == [f"[::1]:{port}"]
    with pytest.raises(OSError, match="refused"):
        check_answers(FakeRay(), f"[::1]:{free_port(socket.AF_INET6)}")


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_something_else_listens(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would wait for it for minutes; also for what says nothing."""
    monkeypatch.setattr(ray_start, "SECONDS", 0.3)
    with server(answer) as port, pytest.raises(RunError, match="is not Ray"):
        check_answers(FakeRay(), f"127.0.0.1:{port}")


def test_auto_is_asked_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may name a cluster that was killed, of which a file is left; or RAY_ADDRESS names one."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(OSError, match="refused"):
        check_answers(FakeRay(auto=f"127.0.0.1:{free_port()}"), "auto")
    monkeypatch.setenv("RAY_ADDRESS", f"ray://127.0.0.1:{free_port()}")
    with pytest.raises(OSError, match="refused"):
        check_answers(FakeRay(), "auto")


def test_what_is_no_address_is_left_to_ray() -> None:
    check_answers(FakeRay(), "foo")
    check_answers(FakeRay(), "anyscale://my-cluster")


def _train(address: str) -> None:
    import rookery

    rookery.train("CartPole-v1", steps=2000, on="ray", cluster={"address": address})


def _doctor(address: str) -> None:
    from rookery.cluster.ray_doctor import examine_cluster

    examine_cluster(address)


def _league(address: str) -> None:
    from rookery.cluster.ray_league import open_ray_tournament

    with open_ray_tournament(address):
        pass


@pytest.mark.parametrize("use", [_train, _doctor, _league])
def test_it_is_said_before_ray_is_asked(
    use: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """By runs, `doctor` and `league` alike; `search` connects as runs do."""
    from rookery.cluster import ray_start

    ray, port = FakeRay(), free_port()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_start, "load_ray", lambda: ray)
    with pytest.raises(RunError, match=f"there is no Ray cluster at 127.0.0.1:{port}: Connection refused"):
        use(f"127.0.0.1:{port}")
    assert not ray.addresses
