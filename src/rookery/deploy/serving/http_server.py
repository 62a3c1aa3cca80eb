"""What `rookery serve` and the dashboard share: a uvicorn server on a socket that is open already, the token that other
machines need, and the accepted host names.

A page of any site can let its own name point to 127.0.0.1 and then read what is served there as its own (DNS
rebinding). Such a request has that site's name in Host. So only names that are known to be ours are answered.
"""

from __future__ import annotations

import ipaddress
import re
import signal
import socket
import threading
import time
from collections.abc import Iterable
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from rookery.errors import OptionError, UsageError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHORTEST_TOKEN = 16  # characters
# A name or an IPv4 address, or an IPv6 address in brackets; then perhaps a port.
HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9])?)(?::([0-9]{1,5}))?", re.IGNORECASE)
ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)")
PORTS = {"http": 80, "https": 443}


class HttpServer:
    """`run` serves in this thread until SIGTERM or Ctrl-C; as a context, it serves in another thread until the end of
    the block."""

    def __init__(self, server: Any, listening: socket.socket) -> None:
        self._server, self._socket = server, listening
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until a signal says to stop, or `stop` is called."""
        in_main = threading.current_thread() is threading.main_thread()
        # uvicorn raises the signal again at the end, which would end this process before it has cleaned up. One that
        # comes before uvicorn listens to signals counts too.
        before = {name: signal.signal(name, lambda *_: self.stop()) for name in STOP_SIGNALS} if in_main else {}
        try:
            self._server.run(sockets=[self._socket])
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)
            self.close()

    def close(self) -> None:
        """Release what was served; `run` does so at its end."""
        self._socket.close()

    def stop(self) -> None:
        """Let `run` end; may be called in any thread."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise UsageError("this server has been started already: make another one")
        self._thread = threading.Thread(target=self.run, name="rookery http", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()


def checked_token(token: str | None, variable: str) -> str | None:
    """A token that can be sent in a header and is hard to guess; None if there is none. `variable` is where it was."""
    if not token:
        return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise OptionError(
            f"{variable} should have at least {SHORTEST_TOKEN} letters, digits and signs, and no spaces: "
            '`python -c "import secrets; print(secrets.token_urlsafe())"` makes one'
        )
    return token


def open_socket(host: str, port: int, has_token: bool, variable: str) -> socket.socket:
    """A listening socket. Addresses that other machines reach need a token, which `variable` would hold."""
    if not 0 <= port < 65536:
        raise OptionError(f"--port should be an integer from 0 (any free port) to 65535, got {port}")
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise OptionError(f"--host {host}: there is no such address ({getattr(error, 'strerror', error)})") from None
    if not has_token and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise OptionError(
            f"--host {host} can be reached from other machines: set {variable} to a token of at least "
            f"{SHORTEST_TOKEN} characters, which clients must send, or serve on 127.0.0.1"
        )
    opened = socket.socket(family, kind, proto)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(2048)
    except OSError as error:
        opened.close()
        raise OptionError(
            f"port {port} of {host} cannot be used ({error.strerror}): choose another by --port, or --port 0 for any "
            "free one"
        ) from None
    return opened


def socket_url(opened: socket.socket) -> str:
    """Where a listening socket is reached, such as http://127.0.0.1:8000."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class OwnHosts:
    """The values of Host that are ours: this machine's own addresses and `host`, with the port, and `others`.

    >>> hosts = OwnHosts("127.0.0.1", 7007)
    >>> hosts.has("localhost:7007"), hosts.has("evil.example:7007"), hosts.has("localhost:8080")
    (True, False, False)
    """

    def __init__(self, host: str, port: int, others: Iterable[str] = ()) -> None:
        """`others` are names that a proxy or a tunnel uses, such as `runs.example.org` or `localhost:8080`."""
        address = _address(host)
        self._port = port
        self._any_address = address is not None and address.is_unspecified
        self._names = {"localhost", host.lower()}
        if self._any_address:
            name = socket.gethostname().lower()
            self._names |= {name, f"{name}.local"}
        self._others = [_parsed_option(other) for other in others]
        self._has = lru_cache(maxsize=64)(self.has)  # most requests have the same host

    def refusal(self, headers: Iterable[tuple[bytes, bytes]], is_change: bool, what: str) -> str | None:
        """Why a request with these headers is not answered: its host is not ours, or a page of another site sent it.
        None if it is. Programs that are not browsers do not send the headers of origins. `what` is the server, for the
        message."""
        hosts, origins, fetch = list[str](), list[str](), dict[bytes, str]()
        for name, value in headers:
            if name in (b"host", b"origin"):
                (hosts if name == b"host" else origins).append(value.decode("latin-1"))
            elif name in (b"sec-fetch-site", b"sec-fetch-mode"):
                fetch[name] = value.decode("latin-1")
        if len(hosts) != 1 or not self._has(hosts[0]):
            return (
                f"the host {', '.join(hosts)!r:.80} is not this {what}: if it is the name of a proxy or a tunnel, "
                f"start the {what} with --allow-host NAME[:PORT]"
            )
        if any(not is_same_origin(origin, hosts[0]) for origin in origins):
            return f"the origin {origins[0]!r:.80} is not a page of this {what}"
        site = fetch.get(b"sec-fetch-site", "same-origin")
        # A link may be followed from anywhere, and an address typed; a page of another site may not load from here.
        is_opened = site == "none" or fetch.get(b"sec-fetch-mode") == "navigate"
        if site == "same-origin" or (is_opened and not is_change):
            return None
        return f"requests from other sites are not answered (Sec-Fetch-Site: {site:.20})"

    def has(self, value: str) -> bool:
        """Whether a value of the header Host is ours. Without a port it is that of HTTP, 80."""
        found = HOST.fullmatch(value)
        if found is None:
            return False
        name, port = _plain(found[1]), int(found[2]) if found[2] else None
        if any(name == other and wanted in (None, port) for other, wanted in self._others):
            return True
        return (80 if port is None else port) == self._port and self._is_ours(name)

    def _is_ours(self, name: str) -> bool:
        address = _address(name)
        if address is None:
            return name in self._names
        # An address cannot be made to point elsewhere, as a name can. It is ours if we listen on all addresses.
        return address.is_loopback or self._any_address or name in self._names


def is_same_origin(origin: str, host: str) -> bool:
    """Whether the header Origin is that of our own page, which was loaded from `host`. `null` is not.

    >>> is_same_origin("http://localhost:7007", "localhost:7007"), is_same_origin("null", "localhost:7007")
    (True, False)
    """
    found = ORIGIN.fullmatch(origin)
    if found is None:
        return False
    return _with_port(found[2], PORTS[found[1]]) == _with_port(host, PORTS[found[1]])


def _with_port(value: str, usual: int) -> tuple[str, int] | None:
    found = HOST.fullmatch(value)
    return None if found is None else (_plain(found[1]), int(found[2]) if found[2] else usual)


def _plain(name: str) -> str:
    return name.strip("[]").lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None


def _parsed_option(value: str) -> tuple[str, int | None]:
    found = HOST.fullmatch(value)
    if found is None:
        raise OptionError(
            f"--allow-host should be a name with or without a port, such as runs.example.org or localhost:8080, "
            f"got {value!r:.80}"
        )
    return _plain(found[1]), int(found[2]) if found[2] else None
