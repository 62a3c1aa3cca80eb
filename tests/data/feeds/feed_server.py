"""A local HTTP server that answers as Alpaca's and Binance's REST APIs do, and fails on demand."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

SECONDS = {"Min": 60, "Hour": 3600, "Day": 86_400, "m": 60, "h": 3600, "d": 86_400}
START = 1_704_067_200  # 2024-01-01


def bar(start: int, revision: int = 0) -> list[float]:
    """Open, high, low, close and volume of the bar that starts then: the same at every request."""
    price = 100.0 + (start // 60) % 977 / 7 + revision
    return [price, price + 2, price - 2, price + 1, float(start // 60 % 31)]


class FeedServer:
    """Serves until it is closed.

    Attributes:
        faults: What happens instead of the next answers, in this order; None: a good answer. A fault is called with
            the handler.
        requests: Path and parameters of every request, with the headers under "headers".
        symbols: Symbol -> the starts of its first and, exclusively, its last bar.
        page: The most bars in one answer, whatever the client asks for.
        revised: Symbol -> the start from which its bars have other prices, by one.
    """

    def __init__(self) -> None:
        self.faults: list[Callable[[Any], None] | None] = []
        self.requests: list[dict[str, Any]] = []
        self.symbols: dict[str, tuple[int, int]] = {}
        self.page = 10_000
        self.revised: dict[str, int] = {}
        self.changed: Callable[[list[Any]], list[Any]] = lambda bars: bars  # what else is wrong with a page
        self.date: float | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.owner = self  # type: ignore[attr-defined]
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def starts(self, symbol: str, first: int, last: int, step: int) -> list[int]:
        begin, end = self.symbols.get(symbol, (0, 0))
        first = max(-(-max(first, begin) // step) * step, 0)
        return list(range(first, min(last, end), step))

    def values(self, symbol: str, start: int) -> list[float]:
        revised = self.revised.get(symbol)
        return bar(start, int(revised is not None and start >= revised))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def do_GET(self) -> None:
        server: FeedServer = self.server.owner  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        wanted = dict(parse_qsl(parts.query))
        server.requests.append({"path": parts.path, **wanted, "headers": dict(self.headers)})
        fault = server.faults.pop(0) if server.faults else None
        if fault is not None:
            fault(self)
        elif parts.path in ("/v1beta3/crypto/us/bars", "/v2/stocks/bars"):
            answer(self, alpaca_bars(server, wanted))
        elif parts.path.endswith("/klines"):
            answer(self, binance_klines(server, wanted))
        elif parts.path.endswith("/exchangeInfo"):
            answer(self, binance_markets(server if parts.path.startswith("/api/") else None))
        else:
            answer(self, {"message": "Not Found"}, 404)

    def date_time_string(self, timestamp: float | None = None) -> str:
        server: FeedServer = self.server.owner  # type: ignore[attr-defined]
        return formatdate(time.time() if server.date is None else server.date, usegmt=True)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def answer(handler: Any, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in (
        {"Content-Type": "application/json", "Content-Length": str(len(data))} | (headers or {})
    ).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def status(code: int, body: Any = b"", **headers: str) -> Callable[[Any], None]:
    """A fault: an answer with that status. `Retry_After="1"` is a header."""
    return lambda handler: answer(handler, body, code, {k.replace("_", "-"): v for k, v in headers.items()})


def drop(handler: Any) -> None:
    """A fault: the connection breaks in the middle of the body."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"bars": {"BTC/USD": [{"t": "2024')
    handler.wfile.flush()
    # Closed with a reset, as by a proxy that dies.
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True


def alpaca_bars(server: FeedServer, wanted: dict[str, str]) -> dict[str, Any]:
    """Alpaca's answer: its end belongs to the period, and a token names the next page."""
    step = _alpaca_step(wanted["timeframe"])
    first, last = (int(datetime.fromisoformat(wanted[name]).timestamp()) for name in ("start", "end"))
    found = server.starts(wanted["symbols"], first, last + 1, step)
    skip = int(wanted.get("page_token", "page-0").removeprefix("page-"))
    most = min(server.page, int(wanted["limit"]))
    bars = [_alpaca_bar(start, server.values(wanted["symbols"], start)) for start in found[skip : skip + most]]
    more = f"page-{skip + most}" if skip + most < len(found) else None
    return {"bars": {wanted["symbols"]: server.changed(bars)} if bars else {}, "next_page_token": more}


def _alpaca_bar(start: int, values: list[float]) -> dict[str, Any]:
    moment = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"t": moment, **dict(zip("ohlcv", values, strict=True)), "n": 10, "vw": values[0]}


def _alpaca_step(name: str) -> int:
    digits = "".join(filter(str.isdigit, name))
    return int(digits) * SECONDS[name.removeprefix(digits)]


def binance_klines(server: FeedServer, wanted: dict[str, str]) -> list[list[Any]]:
    """Binance's answer: from startTime on, prices as text."""
    symbol = next(s for s in server.symbols if s.replace("/", "") == wanted["symbol"])
    step = int(wanted["interval"][:-1]) * SECONDS[wanted["interval"][-1]]
    first, last = int(wanted.get("startTime", 0)) // 1000, int(wanted.get("endTime", 10**15)) // 1000
    starts = server.starts(symbol, first, last + 1, step)[: min(server.page, int(wanted.get("limit", 500)))]
    rows = [(start, server.values(symbol, start)) for start in starts]
    return server.changed([[s * 1000, *map(str, v), (s + step) * 1000 - 1, "0", 1, "0", "0", "0"] for s, v in rows])


def binance_markets(server: FeedServer | None) -> dict[str, Any]:
    symbols = [] if server is None else [_binance_market(*name.split("/")) for name in server.symbols]
    return {"timezone": "UTC", "serverTime": int(time.time() * 1000), "rateLimits": [], "symbols": symbols}


def _binance_market(base: str, quote: str) -> dict[str, Any]:
    return {
        "symbol": base + quote, "status": "TRADING", "baseAsset": base, "baseAssetPrecision": 8, "quoteAsset": quote,
        "quotePrecision": 8, "quoteAssetPrecision": 8, "orderTypes": ["LIMIT", "MARKET"], "icebergAllowed": True,
        "isSpotTradingAllowed": True, "isMarginTradingAllowed": False, "permissions": ["SPOT"],
        "filters": [{"filterType": "PRICE_FILTER", "minPrice": "0.01", "maxPrice": "1000000", "tickSize": "0.01"}],
    }  # fmt: skip
