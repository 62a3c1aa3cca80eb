"""Whether a Ray cluster answers at an address. Ray itself would try for many minutes, with lines of its own."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

from rookery.errors import RunError

SECONDS = 5.0  # for the connection, and for the answer
CLIENT = "ray://"  # the protocol of Ray's clients, at a port of its own
# Ray speaks gRPC, which is HTTP/2: both sides begin with their settings, of which this side has none.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
SETTINGS = 4  # the type of a frame, its fourth byte


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
