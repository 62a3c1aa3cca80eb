"""Requests that the dashboard must not answer, as bytes: traversal, huge, malformed, wrong Host, Origin or token."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

SECRET = "this-must-not-be-read"
UPS = ("..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "..%5c..", "%c0%ae%c0%ae", "%252e%252e", "....//", "..%00", ".")
PLACES = ("/static/", "/static/js/", "/api/runs/", "/api/runs/runs/", "/api/runs/runs/first/files/", "/api/studies/")
GOALS = ("secret.txt", "first/../../secret.txt", "etc/passwd", "link/secret.txt", "first/link.txt", "/etc/passwd")
HOSTS = ("evil.example", "evil.example:{port}", "localhost", "localhost:1", "127.0.0.1.evil.example:{port}", "", "[::",
         "a@localhost:{port}", "localhost:{port}.evil.example", "10.0.0.1:{port}", "0.0.0.0:{port}")  # fmt: skip
ORIGINS = ("http://evil.example", "null", "http://localhost:1", "https://127.0.0.1.evil.example", "file://", "x" * 500)
MALFORMED = (
    b"\r\n\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"GET / HTTP/3.0\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nhello\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1e9\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api/play HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
)  # fmt: skip


@dataclass
class BadRequests:
    """Makes bad requests at random, each with one fault: without it, the server would answer them."""

    port: int
    token: str
    random: random.Random

    def any(self) -> tuple[str, bytes]:
        """A kind, and a request of it."""
        kinds: dict[str, Callable[[], bytes]] = {
            "traversal": self.traversal, "huge": self.huge, "malformed": self.malformed, "host": self.host,
            "origin": self.origin, "token": self.wrong_token, "change": self.change, "socket": self.socket,
        }  # fmt: skip
        kind = self.random.choice(list(kinds))
        return kind, kinds[kind]()

    def request(self, target: str, method: str = "GET", body: bytes = b"", **headers: str) -> bytes:
        """A request that would be answered, if nothing is wrong with what is given."""
        known = {
            "Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.token}", "Connection": "close",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }  # fmt: skip
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in known.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1") + body

    def traversal(self) -> bytes:
        ups = "/".join([self.random.choice(UPS)] * self.random.randint(1, 6))
        return self.request(self.random.choice(PLACES) + ups + "/" + self.random.choice(GOALS))

    def huge(self) -> bytes:
        much = self.random.choice((70_000, 200_000))
        return self.random.choice(
            (
                lambda: self.request("/api/" + "x" * much),
                lambda: self.request("/api/health?" + "x=1&" * (much // 4)),
                lambda: self.request("/api/health", Cookie="x" * much),
                lambda: self.request("/api/health", **{f"X-{number}": "1" for number in range(300)}),
                lambda: self.request("/api/runs/runs/first/tags", "POST", b"x" * much, Content_Length=str(much)),
                lambda: self.request("/api/runs/runs/first/tags", "POST", b"x", Content_Length="9" * 15),
            )
        )()

    def malformed(self) -> bytes:
        noise = self.random.randbytes(self.random.randint(1, 200)) + b"\r\n\r\n"
        return self.random.choice((*MALFORMED, noise))

    def host(self) -> bytes:
        return self.request("/api/health", Host=self.random.choice(HOSTS).format(port=self.port))

    def origin(self) -> bytes:
        if self.random.random() < 0.3:
            return self.request("/api/health", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")
        return self.request("/api/health", Origin=self.random.choice(ORIGINS))

    def wrong_token(self) -> bytes:
        guess = self.random.choice(("", "Bearer ", "Bearer wrong", f"Basic {self.token}", f"Bearer {self.token[:-1]}"))
        target = self.random.choice(("/", "/api/health", "/api/health?token=wrong", "/static/js/main.js", "/?token="))
        cookie = f"rookery_dashboard_{self.port}={self.random.choice((self.token, 'x' * 64, ''))}"
        return self.request(target, Authorization=guess, Cookie=cookie)

    def change(self) -> bytes:
        """A change without the CSRF token, or of a form."""
        what = self.random.choice(("stop", "resume", "tags", "hide"))
        kind = self.random.choice(("application/json", "text/plain", "application/x-www-form-urlencoded"))
        body = b'{"hidden": true, "tags": ["x"]}'
        target = f"/api/runs/runs/first/{what}"
        about = {"Content_Type": kind, "Content_Length": str(len(body)), "X_CSRF_Token": "guessed"}
        return self.request(target, "POST", body, **about)

    def socket(self) -> bytes:
        """A handshake of a page of another site."""
        about = {"Upgrade": "websocket", "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec_WebSocket_Version": "13"}
        return self.request("/api/play", Connection="Upgrade", Origin="http://evil.example", **about)
