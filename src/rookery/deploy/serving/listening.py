"""The socket of a server over HTTP, and the token that other machines need."""

from __future__ import annotations

import ipaddress
import socket

from rookery.errors import OptionError

SHORTEST_TOKEN = 16  # characters


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
