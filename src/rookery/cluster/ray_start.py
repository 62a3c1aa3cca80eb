"""Connects to a Ray cluster, or starts one here with a temporary folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from rookery import forks
from rookery.cluster.ray_transport import RayTransport, first_line
from rookery.console import waiting
from rookery.engine.machine import usable_cores
from rookery.errors import MissingExtra, RunError
from rookery.files import open_plain, try_lock
from rookery.gate import Reach, allow, demand

START_ATTEMPTS = 3
# A node that is gone is noticed in about 4 seconds, instead of 20. For clusters that are started here; others are
# started with the same settings as environment variables: see docs/cluster.md.
HEALTH = {
    "health_check_initial_delay_ms": 1_000,
    "health_check_period_ms": 1_000,
    "health_check_timeout_ms": 3_000,
    "health_check_failure_threshold": 3,
}
PREFIX = "rookery-ray-"  # of the temporary folder
ATTEMPTS, PAUSE_SECONDS = 10, 0.2  # to remove it
OWNER = "owner.lock"  # locked by the process that started the cluster, as long as it lives
SECONDS = 5.0  # for the connection, and for the answer
CLIENT = "ray://"  # the protocol of Ray's clients, at a port of its own
# Ray speaks gRPC, which is HTTP/2: both sides begin with their settings, of which this side has none.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
SETTINGS = 4  # the type of a frame, its fourth byte


def load_ray() -> Any:
    """Import Ray, with its usage reports off."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtra(f"Ray cannot be imported ({error}): pip install 'rookery[ray]'") from None
    return ray


def allow_address(address: str | None) -> None:
    """The user of this process names this cluster."""
    if address is not None:
        allow([Reach("network", "cluster.address", address)])


@contextmanager
def open_ray(address: str | None) -> Iterator[RayTransport]:
    """A connection to the cluster at this address ("auto" finds one on this machine), or to one that is started here
    and stopped in the end. A program that has called `ray.init` itself keeps its cluster."""
    ray = load_ray()
    if ray.is_initialized():
        yield RayTransport(ray)
        return
    if address is not None:
        demand("network", address, "cluster.address")
    with ray_folder() if address is None else nullcontext() as folder:
        try:
            with waiting("starting Ray" if address is None else f"connecting to the Ray cluster at {address}"):
                _connect(ray, address, folder)
            yield RayTransport(ray)
        finally:
            ray.shutdown()


def _connect(ray: Any, address: str | None, folder: Path | None) -> None:
    """Connect; a cluster that is started here gets several attempts, as Ray gives a node only 30 s to start, which a
    busy machine may need for the imports of its processes alone."""
    common: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": "rookery"}
    own = {
        "num_cpus": usable_cores(),
        "include_dashboard": False,
        "_temp_dir": str(folder),
        "_system_config": HEALTH,
    }
    for attempt in range(1, START_ATTEMPTS + 1):
        others = set(psutil.Process().children())
        try:
            with _signals_kept(), _on_loopback(ray, address is None), redirect_stderr(StringIO()):  # its greetings
                if address is not None:
                    check_answers(ray, address)
                ray.init(address=address, **common, **(own if address is None else {}))
            return
        except Exception as error:  # of a node that is too slow to start, Ray raises just that
            ray.shutdown()
            _kill(set(psutil.Process().children()) - others)
            if isinstance(error, TokenWanted):
                raise
            if address is None and attempt < START_ATTEMPTS and "timed out" in str(error):
                continue
            where = f"there is no Ray cluster at {address}" if address else "no Ray cluster can be started here"
            raise RunError(f"{where}: {first_line(error)}") from error


def _kill(processes: set[psutil.Process]) -> None:
    """End what a cluster that did not start has left."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=10)


@contextmanager
def _on_loopback(ray: Any, wanted: bool) -> Iterator[None]:
    """In the meantime, Ray takes 127.0.0.1 for the address of this node, and listens there only, as it does on macOS
    and Windows. On Linux it replaces that address by one that others can reach, even if it is requested explicitly."""
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = before and not wanted
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray replaces the handler of SIGTERM, by which a run saves before it ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- the folder of a cluster that is started here ------------------------------------------------------------------


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A folder for Ray's files, removed in the end. Removes those of processes that were killed before they could."""
    parent = Path(tempfile.gettempdir())
    remove_left_folders(parent)
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))
    owner = open_plain(made / OWNER, os.O_RDWR | os.O_CREAT)
    forks.keep_from_children(owner)
    try:
        with suppress(OSError):  # where files cannot be locked, others cannot lock it either, and leave it alone
            try_lock(owner)
        folder = made.rename(parent / made.name.removeprefix("."))  # only now do others see it
        try:
            yield folder
        finally:
            with suppress(OSError):
                _remove(folder)
    finally:
        forks.close_kept(owner)


def remove_left_folders(parent: Path) -> None:
    """Those that this user's processes have made and no process holds."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_mine(folder) and not _is_held(folder):
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove it. Ray's processes may still write there while they end: what then stays is left to the next run, which
    knows by the lock's file that it may remove it."""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_SECONDS * bool(attempt))
        for path in folder.iterdir():
            if path.name != OWNER:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()
        if [path.name for path in folder.iterdir()] == [OWNER]:
            (folder / OWNER).unlink()
            try:
                return folder.rmdir()
            except OSError:
                (folder / OWNER).touch()
    return None


def _is_mine(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.stat(follow_symlinks=False).st_uid == os.getuid()


def _is_held(folder: Path) -> bool:
    """Whether the process that made it lives, as far as can be known."""
    try:
        owner = open_plain(folder / OWNER, os.O_RDWR)
    except OSError:
        return True
    try:
        try_lock(owner)
    except OSError:
        return True
    finally:
        os.close(owner)
    return False


# --- whether a cluster answers: Ray itself would try for many minutes, with lines of its own ------------------------


class TokenWanted(RunError):
    """There is a cluster, and it refuses this process."""


def check_answers(ray: Any, address: str) -> None:
    """Refuse an address, as `ray.init` takes it, at which nothing answers, or something that is not Ray.

    Raises:
        TokenWanted: It has to be given a token.
        OSError, RunError, ValueError: Why there is no cluster.
    """
    target = _target(ray, address)
    if target is None:
        return
    with socket.create_connection(target, SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0") in ("0", ""):
            connection.sendall(GREETING)
            if len(answer := _read(connection, 4)) < 4 or answer[3] != SETTINGS:
                raise RunError("what listens there is not Ray")
    if not address.startswith(CLIENT) and (address != "auto" or os.environ.get("RAY_ADDRESS")):
        _check_token(ray, *target)


def _check_token(ray: Any, host: str, port: int) -> None:
    """Refuse a cluster that wants a token and would not get it: Ray sends one to an address only if it is told to, and
    by itself to a cluster that it finds on this machine."""
    try:
        ray._raylet.GcsClient(address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except getattr(ray.exceptions, "AuthenticationError", ()):  # which older versions do not have
        raise TokenWanted(
            f"the Ray cluster at {host}:{port} asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what "
            "`ray get-auth-token` prints on the cluster's first machine, or copy its file ~/.ray/auth_token here"
        ) from None


def _target(ray: Any, address: str) -> tuple[str, int] | None:
    """The host and the port to which Ray would connect, or None where only Ray can tell what is wrong."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    if address.startswith(CLIENT):
        address = address.removeprefix(CLIENT).partition("?")[0]
    elif "://" in address:
        return None
    else:  # of a cluster that is said to be on this machine, Ray takes the address that other nodes see
        address = ray._private.services.canonicalize_bootstrap_address(address) or ""
    parts = urlsplit(f"//{address}")
    return (parts.hostname, parts.port) if parts.hostname and parts.port is not None else None


def _read(connection: socket.socket, size: int) -> bytes:
    """As many bytes, or those that come before the other side ends or is silent for too long."""
    received = b""
    try:
        while len(received) < size and (part := connection.recv(size - len(received))):
            received += part
    except OSError:
        pass
    return received
